# Lists that CMake makes from the sources, so that a new kernel or operation needs no entry anywhere else.
#   - A kernel is a function in a folder vector/ of src/kernels. Its definition begins with `void TH_KERNEL(name)(...)`,
#     `ELEMENTWISE_KERNEL(name, sources, numbers)` or `ELEMENTWISE_LOOP(name, sources, numbers)`.
#     kernels.def lists all kernels, elementwise.def the arguments of the last two macros, rows.def the kernels over rows.
#   - An operation is a descriptor in src/ops: `const th_op th_op_name = {`. operations.def lists them.
#   - An update rule of optimizers is a descriptor in src/training/rules: `const th_update_rule th_update_rule_name = {`.
#     update_rules.def lists them.
# CMake reads the sources when it runs, and runs again when one of them changes.

set(TAPEHEAD_LISTS ${tapehead_BINARY_DIR}/lists)

# tapehead_list(name files [definition entry]...): writes the file `name`. Each match of the regular expression `definition` in the
# files of the list `files` becomes a line `entry`.
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
    file(CONFIGURE OUTPUT ${TAPEHEAD_LISTS}/${name} CONTENT "${lines}" @ONLY) # writes only if it changes
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${${files}})
endfunction()
