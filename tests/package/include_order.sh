#!/bin/sh
# include_order.sh SOURCE: folders of src/ include each other in one direction only, as ARCHITECTURE.md shows. The list below has a
# line for each folder: a file may include headers of the same folder, and the folders and headers on that line. The folders of
# models/ include internals of the core through the headers in models/core only, and use no field of a context.
set -eu
cd "$1/src"

core='models/core'
gguf='models/gguf/folder.h' # a GGUF file takes the place of a folder
adapters='models/saved_models/peft.h' # the adapters of modules, under the names of a file
kernels='kernels/dtype.h kernels/kernels.h kernels/product_block.h kernels/product_kernels.h kernels/sizes.h kernels/wide.h'
folders="
    platform:
    kernels:
    kernels/machine:    $kernels platform
    kernels/vector:     $kernels
    kernels/elementwise: $kernels kernels/vector
    kernels/random:     $kernels kernels/vector
    kernels/storage:    $kernels kernels/vector
    kernels/rows:       $kernels kernels/vector kernels/elementwise
    kernels/products:   $kernels kernels/vector kernels/machine kernels/storage
    kernels/bfloat16:   $kernels kernels/vector kernels/products
    kernels/attention:  $kernels kernels/vector kernels/machine kernels/products kernels/random kernels/rows
    tensor:             platform kernels
    autograd:           platform kernels tensor
    ops:                kernels tensor autograd
    checker:            kernels tensor autograd ops
    processes:          kernels tensor autograd
    nn:                 kernels tensor autograd ops processes
    training:           kernels tensor autograd processes nn
    io:                 platform kernels tensor autograd
    export:             platform kernels tensor autograd ops io
    models/posix:       platform
    models/core:        platform kernels tensor autograd ops processes nn training io models/posix/posix.h
    models/files:       $core/context.h $core/files.h $core/kernels.h $core/tensors.h
    models/logs:        $core/context.h $core/files.h models/files
    models/data:        $core/context.h $core/files.h $core/kernels.h $core/tensors.h models/files
    models/text/pattern: $core/context.h models/text/characters.h models/text/grow.h models/text/unicode.h
    models/text:        $core/context.h $core/files.h models/files models/text/pattern
    models/text/json:   $core/context.h $core/files.h models/files models/text $gguf
    models/jinja:       $core/context.h $core/files.h $core/kernels.h models/text
    models/chat:        $core/context.h $core/files.h models/files models/text models/jinja $gguf
    models/generation:  $core/context.h $core/kernels.h $core/modules.h $core/tensors.h
    models/families:    $core/context.h $core/files.h $core/modules.h $core/tensors.h models/files
    models/saved_models: $core/context.h $core/files.h $core/modules.h $core/tensors.h $core/training.h models/files models/text models/families $gguf
    models/gguf:        $core/context.h $core/files.h $core/kernels.h $core/modules.h $core/tensors.h models/files models/families models/text $adapters
    models/tuning:      $core/context.h $core/modules.h $core/training.h models/families models/data models/text models/chat"

for folder in $(ls -d */ kernels/*/ models/*/ models/text/*/ | sed 's|/$||' | grep -vx models); do
    below=$(printf '%s\n' "$folders" | sed -n "s,^ *$folder:,,p")
    if ! printf '%s\n' "$folders" | grep -q "^ *$folder:"; then
        echo "src/$folder has no line in $0: add one with the folders that it may include" >&2
        exit 1
    fi
    # Folders inside this one that have a line
    inner=$(printf '%s\n' "$folders" | sed -n "s,^ *\($folder/[a-z0-9_/]*\):.*,\1,p" | paste -sd'|' -)
    own=$folder${inner:+/[a-z0-9_]*\.h}
    pattern=$(printf '%s|' $below)
    if grep -rnE '^ *# *include "[a-z_]+/' "$folder" | grep -vE "^(${inner:-none})/" | grep -vE "include \"($pattern$own|tapehead)[/\"]"; then
        echo "src/$folder may include its own headers, public ones, and: ${below:-nothing else}" >&2
        exit 1
    fi
done
if grep -rnE '\bctx->[a-z]' models; then
    echo "src/models may not use fields of th_context: call a function of the core" >&2
    exit 1
fi
