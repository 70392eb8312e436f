# Writes class.html, one file that needs no network. It is the template with the viewer of tapes, the page's scripts, and the
# engine:
#     cmake -D ENGINE=class.js -D OUTPUT=class.html -P teaching/class/assemble.cmake
# class.js contains the WebAssembly as base64 (teaching/class/CMakeLists.txt).
cmake_minimum_required(VERSION 3.25)
if(NOT EXISTS "${ENGINE}" OR NOT OUTPUT)
    message(FATAL_ERROR "cmake -D ENGINE=class.js -D OUTPUT=class.html -P teaching/class/assemble.cmake: no file '${ENGINE}'")
endif()
set(page ${CMAKE_CURRENT_LIST_DIR}/page)
set(viewer ${CMAKE_CURRENT_LIST_DIR}/../../src/export/page)

# Reads files, one after the other. The text must not end the element that holds it.
function(read_texts variable)
    set(text "")
    foreach(file ${ARGN})
        file(READ ${file} part)
        string(APPEND text "${part}")
    endforeach()
    if(text MATCHES "</script|<!--")
        message(FATAL_ERROR "a text of class.html contains '${CMAKE_MATCH_0}', which HTML reads as its own")
    endif()
    set(${variable} "${text}" PARENT_SCOPE)
endfunction()

file(GLOB styles ${viewer}/*.css)
file(GLOB viewer_scripts ${viewer}/*.js)
file(GLOB page_scripts ${page}/*.js)
list(REMOVE_ITEM page_scripts ${page}/worker.js ${page}/main.js ${page}/texts.js)
read_texts(STYLE ${styles} ${page}/class.css ${page}/exercises.css)
read_texts(SCRIPT ${viewer_scripts} ${page}/texts.js ${page_scripts} ${page}/main.js)
read_texts(TEXTS ${page}/texts.json)
read_texts(WORKER ${page}/worker.js)
read_texts(ENGINE_TEXT ${ENGINE})

# The files of the exercises, each in an element with its lessons (page/exercises.js).
file(READ ${CMAKE_CURRENT_LIST_DIR}/../exercises/README.md table)
file(GLOB exercises ${CMAKE_CURRENT_LIST_DIR}/../exercises/[0-9]*.c)
set(EXERCISES "")
foreach(exercise ${exercises})
    read_texts(text ${exercise})
    get_filename_component(name ${exercise} NAME)
    if(NOT table MATCHES "\\| \\[${name}\\]\\(${name}\\) \\| ([^|]*) \\|")
        message(FATAL_ERROR "teaching/exercises/README.md has no row for ${name}")
    endif()
    string(APPEND EXERCISES "<script type=\"text/plain\" class=\"exercise\" data-file=\"${name}\" data-lessons=\"${CMAKE_MATCH_1}\">\n${text}</script>\n")
endforeach()

# What a reader without JavaScript sees.
string(JSON TITLE GET "${TEXTS}" title.page 0)
string(JSON english GET "${TEXTS}" noscript 0)
string(JSON chinese GET "${TEXTS}" noscript 1)
set(NOSCRIPT "${english} ${chinese}")

file(READ ${page}/page.html html)
foreach(part TITLE NOSCRIPT STYLE TEXTS SCRIPT WORKER EXERCISES)
    string(REPLACE "@${part}@" "${${part}}" html "${html}")
endforeach()
string(REPLACE "@ENGINE@" "${ENGINE_TEXT}" html "${html}")
file(WRITE ${OUTPUT}.partial "${html}")
file(RENAME ${OUTPUT}.partial ${OUTPUT})
