# tapehead_embed(header variable file...): writes the list `header` with an array of bytes, the text of all files one after
# the other, ending with a zero byte. The viewer of th_tape_write_html is a part of the library in this way. In its files
# (.js, .css), comments that begin a line and spaces at the beginning of lines are left out, because every page contains the text.
function(tapehead_embed header variable)
    set(bytes "")
    foreach(file ${ARGN})
        file(READ ${file} hex HEX)
        if(file MATCHES "\\.(js|css)$")
            file(READ ${file} text)
            string(REGEX REPLACE "(^|\n) */\\*([^*]|\\*[^/])*\\*/" "\\1" text "${text}")
            string(REGEX REPLACE "\n[ \n]+" "\n" text "${text}")
            string(HEX "${text}" hex)
        endif()
        string(APPEND bytes "${hex}0a")
    endforeach()
    string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
    file(CONFIGURE OUTPUT ${TAPEHEAD_LISTS}/${header} @ONLY
        CONTENT "static const unsigned char ${variable}[] = {\n${bytes}0x00\n};\n")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ARGN})
endfunction()

# tapehead_embed_each(header prefix file...): writes the list `header` with an array for each file, named after it.
function(tapehead_embed_each header prefix)
    set(includes "")
    foreach(file ${ARGN})
        get_filename_component(name ${file} NAME_WE)
        string(MAKE_C_IDENTIFIER ${prefix}${name} name)
        tapehead_embed(${name}.inc ${name} ${file})
        string(APPEND includes "#include \"${name}.inc\"\n")
    endforeach()
    file(CONFIGURE OUTPUT ${TAPEHEAD_LISTS}/${header} @ONLY CONTENT "${includes}")
endfunction()
