# Tests of a cross build. ctest starts test programs in CMAKE_CROSSCOMPILING_EMULATOR. Scripts start programs by path, so each
# program has a script of its name in emulator/ of the build, which starts it in the emulator. Scripts that compile a program start
# it with $EMULATOR. Tests that cannot run in the emulator are in emulator.txt, with reasons. They exit with 77.

set(TAPEHEAD_EMULATOR ${PROJECT_BINARY_DIR}/emulator)
file(STRINGS emulator.txt TAPEHEAD_EMULATOR_SKIPS REGEX "^[^#]")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS emulator.txt)

# tapehead_emulator_directory(result target): sets `result` to the directory of the script that starts this program.
function(tapehead_emulator_directory result target)
    get_target_property(directory ${target} BINARY_DIR)
    file(RELATIVE_PATH directory ${PROJECT_BINARY_DIR} ${directory})
    set(${result} ${TAPEHEAD_EMULATOR}/${directory} PARENT_SCOPE)
endfunction()

# tapehead_emulator_command(result name argument...): sets `result` to the command for the test `name`.
function(tapehead_emulator_command result name)
    foreach(line ${TAPEHEAD_EMULATOR_SKIPS})
        string(REGEX MATCH "^([^ ]+) +(.+)$" line "${line}")
        set(pattern ${CMAKE_MATCH_1})
        set(reason ${CMAKE_MATCH_2})
        if(name MATCHES "^(${pattern})$")
            set_property(GLOBAL APPEND PROPERTY TAPEHEAD_EMULATOR_SKIPPED ${pattern})
            set(${result} sh -c "echo \"skipped: $1\" && exit 77" sh "${reason}" PARENT_SCOPE)
            return()
        endif()
    endforeach()
    set(command "")
    foreach(argument IN LISTS ARGN)
        if(argument MATCHES "^\\$<TARGET_FILE(_DIR)?:([a-z0-9_]+)>$")
            set(directory_only ${CMAKE_MATCH_1})
            set(target ${CMAKE_MATCH_2})
            get_target_property(type ${target} TYPE)
            if(type STREQUAL "EXECUTABLE")
                tapehead_emulator_directory(argument ${target})
                if(NOT directory_only)
                    string(APPEND argument /${target})
                endif()
            endif()
        endif()
        list(APPEND command "${argument}")
    endforeach()
    set(${result} ${command} PARENT_SCOPE)
endfunction()

# tapehead_emulator_scripts(directory): writes the scripts for all programs of this source directory and its subdirectories.
function(tapehead_emulator_scripts directory)
    get_property(targets DIRECTORY ${directory} PROPERTY BUILDSYSTEM_TARGETS)
    list(JOIN CMAKE_CROSSCOMPILING_EMULATOR "' '" emulator)
    foreach(target ${targets})
        get_target_property(type ${target} TYPE)
        if(type STREQUAL "EXECUTABLE")
            tapehead_emulator_directory(directory_of_target ${target})
            file(GENERATE OUTPUT ${directory_of_target}/${target}
                CONTENT "#!/bin/sh\nexec '${emulator}' '$<TARGET_FILE:${target}>' \"$@\"\n"
                FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
        endif()
    endforeach()
    get_property(subdirectories DIRECTORY ${directory} PROPERTY SUBDIRECTORIES)
    foreach(subdirectory ${subdirectories})
        tapehead_emulator_scripts(${subdirectory})
    endforeach()
endfunction()

# tapehead_emulator_check(): stops if a line of emulator.txt names no test.
function(tapehead_emulator_check)
    get_property(skipped GLOBAL PROPERTY TAPEHEAD_EMULATOR_SKIPPED)
    foreach(line ${TAPEHEAD_EMULATOR_SKIPS})
        string(REGEX REPLACE " .*" "" pattern "${line}")
        if(NOT pattern IN_LIST skipped)
            message(FATAL_ERROR "tests/emulator.txt: no test has the name ${pattern}")
        endif()
    endforeach()
endfunction()
