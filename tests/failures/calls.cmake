# System calls that fail, and processes that are killed at a system call.

# Every system call about files fails once (scripts/defects/failures.sh calls --all: in more ways).
tapehead_program(calls calls.c calls_files.c calls_gate.c calls_operations.c calls_setting.c)
if(TARGET calls)
    target_compile_definitions(calls PRIVATE _GNU_SOURCE FIXTURES="${PROJECT_SOURCE_DIR}/tests/fixtures")
    tapehead_test(failures.calls "suite" calls)
    if(TAPEHEAD_SANITIZE) # the search for leaks has a thread that cannot take the filter's signal; `calls` counts bytes itself
        set_property(TEST failures.calls APPEND PROPERTY ENVIRONMENT ASAN_OPTIONS=detect_leaks=0)
    endif()
endif()

# A process that saves a checkpoint is killed at every system call (scripts/defects/failures.sh kills: training and more, too).
tapehead_program(kills kills.c)
if(TARGET kills AND NOT TAPEHEAD_SANITIZE) # strace and the search for leaks exclude each other
    tapehead_test(failures.kills "suite" ${CMAKE_CURRENT_SOURCE_DIR}/kills.sh $<TARGET_FILE:kills> save)
endif()
