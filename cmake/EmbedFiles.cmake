# nano_embed_files(OUTPUT TEMPLATE PART PATTERN…): a rule for OUTPUT, which is TEMPLATE with, for @files@, an entry
# {"name", R"nano(text)nano"} for each file that matches a PATTERN, by name; PART of a path is its name (NAME or NAME_WE,
# ROOTED: as includes in this repository name it).
# A PATTERN without a star is a file, which the build may make. The rule runs this file as a script.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(NANO_EMBED_FILES ${CMAKE_CURRENT_LIST_FILE})
  function(nano_embed_files output template part)
    set(patterns ${ARGN})
    set(made ${ARGN})
    list(FILTER patterns INCLUDE REGEX "[*]")
    list(FILTER made EXCLUDE REGEX "[*]")
    set(paths "")
    if(patterns)
      file(GLOB paths CONFIGURE_DEPENDS ${patterns})
    endif()
    list(APPEND paths ${made})
    list(JOIN ARGN "|" patterns)
    string(MD5 names "${paths}") # in the command, so that a file that is gone is left out
    add_custom_command(
      OUTPUT ${output}
      COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DTEMPLATE=${template} -DPATTERNS=${patterns} -DPART=${part} -DROOT=${PROJECT_SOURCE_DIR} -DNAMES=${names} -P ${NANO_EMBED_FILES}
      DEPENDS ${template} ${NANO_EMBED_FILES} ${paths}
      COMMENT "Embedding ${patterns}"
      VERBATIM)
  endfunction()
  return()
endif()

string(REPLACE "|" ";" patterns ${PATTERNS})
file(GLOB paths ${patterns})
list(SORT paths COMPARE FILE_BASENAME)
set(files "")
foreach(path ${paths})
  if(PART STREQUAL "ROOTED")
    file(RELATIVE_PATH name ${ROOT} ${path})
  else()
    get_filename_component(name ${path} ${PART})
  endif()
  file(READ ${path} text)
  string(APPEND files "      {\"${name}\", R\"nano(${text})nano\"},\n")
endforeach()
configure_file(${TEMPLATE} ${OUTPUT} @ONLY)
