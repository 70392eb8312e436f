/* Rejects a path that is not the folder that a subcommand needs. The message says what the path is, and what to do. */
#include <errno.h>
#include <string.h>

#include "checkpoints.h"
#include "shared/system.h"
#include "trainer.h"

static bool has_file(const char *folder, const char *name)
{
    return access(path_in(folder, name), F_OK) == 0;
}

/* Returns what the file is. */
static const char *describe_file(const char *path)
{
    const char *ending = strrchr(path, '.');
    return ending && strcmp(ending, ".gguf") == 0 ? "the file does not begin with GGUF, so it has another format"
                                                  : "it is a file, not a folder";
}

/* Returns what the folder is, or what it lacks. */
static const char *describe_folder(const char *path)
{
    if (has_checkpoint(path))
        return "it is a run; `export` writes its model to a folder, which can be tuned further";
    if (has_file(path, "adapter_config.json"))
        return "it has adapters without their model; PEFT's merge_and_unload and save_pretrained write a whole model";
    if (has_file(path, "best.safetensors"))
        return "it has best.safetensors only, not the newest checkpoint, " NEWEST_CHECKPOINT;
    if (has_file(path, "text.tokens"))
        return "the run was stopped before its first checkpoint; begin it again";
    if (has_file(path, "pytorch_model.bin") || has_file(path, "pytorch_model.bin.index.json"))
        return "its weights are in pytorch_model.bin; save_pretrained of transformers writes model.safetensors";
    if (has_file(path, "config.json"))
        return "it has no model.safetensors";
    if (has_file(path, "model.safetensors") || has_file(path, "model.safetensors.index.json"))
        return "it has no config.json";
    return "a model has config.json, model.safetensors and tokenizer.json; a run has " NEWEST_CHECKPOINT;
}

_Noreturn void refuse_folder(const char *path, const char *wanted)
{
    struct stat status;
    char problem[400];
    const char *description = stat(path, &status) != 0   ? strerror(errno)
                              : !S_ISDIR(status.st_mode) ? describe_file(path)
                                                         : describe_folder(path);
    snprintf(problem, sizeof problem, "this is not the folder of %s (%s): ", wanted, description);
    refuse(PROGRAM, problem, path);
    abort(); /* not reached */
}
