# The vector kernels: every file of src/kernels/vector is compiled once for each element type and instruction set.
# What a processor has is found out at run time (src/kernels/machine.c), so one build runs on all of them.

set(TAPEHEAD_ISA_FLAGS_baseline -DTH_VECTOR_BYTES=16)
set(TAPEHEAD_ISA_FLAGS_avx2 -DTH_VECTOR_BYTES=32 -mavx2 -mfma)
set(TAPEHEAD_ISA_FLAGS_avx512 -DTH_VECTOR_BYTES=64 -mavx2 -mfma -mavx512f -mavx512bw -mavx512dq -mavx512vl
    -mprefer-vector-width=512)

# Sets `objects` to the object files of every instance.
function(tapehead_vector_kernels objects)
    set(instances)
    foreach(isa baseline avx2 avx512)
        foreach(bits 32 64)
            set(name tapehead_f${bits}_${isa})
            add_library(${name} OBJECT ${ARGN})
            # -Wno-psabi: vectors are passed between functions of one file only.
            tapehead_library_part(${name} ${TAPEHEAD_OPTIMIZE_KERNEL_FLAGS} -ffp-contract=fast -Wno-psabi
                ${TAPEHEAD_SANITIZE_KERNEL_FLAGS} -DTH_REAL_BITS=${bits} -DTH_INSTANCE=f${bits}_${isa} ${TAPEHEAD_ISA_FLAGS_${isa}})
            list(APPEND instances $<TARGET_OBJECTS:${name}>)
        endforeach()
    endforeach()
    set(${objects} ${instances} PARENT_SCOPE)
endfunction()
