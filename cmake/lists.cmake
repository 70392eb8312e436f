# Lists that are made from the sources, so that they need no entry anywhere else: a kernel is a function defined as
# `void TH_KERNEL(name)(...)` in a folder vector/ of src/kernels, or as `ELEMENTWISE_KERNEL(name, sources, numbers)` or `ELEMENTWISE_LOOP(...)`,
# which a second list keeps with these numbers; an operation is a descriptor defined as `const th_op th_op_name = {` in
# src/ops. They are read when CMake runs, which it does again by itself when one of these files changes.

set(TAPEHEAD_LISTS ${tapehead_BINARY_DIR}/lists)

# tapehead_list(name files [definition entry]...): writes `name`, one line of `entry` (a regular expression's
# replacement) for each definition that matches in the files of that list.
function(tapehead_list name files)
    set(lines "")
    math(EXPR last "${ARGC} - 1")
    foreach(file ${${files}})
        file(READ ${file} text)
        foreach(i RANGE 2 ${last} 2)
            math(EXPR next "${i} + 1")
            string(REGEX MATCHALL "${ARGV${i}}" found "${text}")
            foreach(match ${found})
                string(REGEX REPLACE "${ARGV${i}}" "${ARGV${next}}" line "${match}")
                string(REGEX REPLACE "[ \n]+" " " line "${line}")
                string(APPEND lines "${line}\n")
            endforeach()
        endforeach()
    endforeach()
    file(CONFIGURE OUTPUT ${TAPEHEAD_LISTS}/${name} CONTENT "${lines}" @ONLY) # written when it is another one
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${${files}})
endfunction()
