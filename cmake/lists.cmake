# Lists that are made from the sources, so that they need no entry anywhere else: a kernel is a function defined as
# `void TH_KERNEL(name)(...)` in src/kernels/vector, an operation a descriptor defined as `const th_op th_op_name = {` in
# src/ops. They are read when CMake runs, which it does again by itself when one of these files changes.

set(TAPEHEAD_LISTS ${tapehead_BINARY_DIR}/lists)

# Writes `name`, one line of `entry` (a regular expression's replacement) for each definition that matches in the files.
function(tapehead_list name definition entry)
    set(lines "")
    foreach(file ${ARGN})
        file(READ ${file} text)
        string(REGEX MATCHALL "${definition}" found "${text}")
        foreach(match ${found})
            string(REGEX REPLACE "${definition}" "${entry}" line "${match}")
            string(REGEX REPLACE "[ \n]+" " " line "${line}")
            string(APPEND lines "${line}\n")
        endforeach()
    endforeach()
    file(CONFIGURE OUTPUT ${TAPEHEAD_LISTS}/${name} CONTENT "${lines}" @ONLY) # written when it is another one
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ARGN})
endfunction()
