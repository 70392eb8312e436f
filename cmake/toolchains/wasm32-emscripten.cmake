# Toolchain file for WebAssembly with Debian's emscripten:
#   cmake -S . -B build-wasm --toolchain cmake/toolchains/wasm32-emscripten.cmake
#
# Builds a static core library without threads. Programs run in node. EMSCRIPTEN_ROOT in the environment names another emscripten.

foreach(option TAPEHEAD_OPENMP TAPEHEAD_MODELS TAPEHEAD_INSTALL)
    set(${option} OFF CACHE BOOL "not in WebAssembly")
endforeach()
set(emscripten /usr/share/emscripten)
if(DEFINED ENV{EMSCRIPTEN_ROOT})
    set(emscripten $ENV{EMSCRIPTEN_ROOT})
endif()
include(${emscripten}/cmake/Modules/Platform/Emscripten.cmake)
