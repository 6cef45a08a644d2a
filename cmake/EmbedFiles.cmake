# nano_embed_files(OUTPUT TEMPLATE FOLDER PATTERN PART): a rule for OUTPUT, which is TEMPLATE with, for @files@, an entry
# {"name", R"nano(text)nano"} for each of FOLDER's files that match PATTERN; PART of a path is its name (NAME or NAME_WE).
# The rule runs this file as a script.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(NANO_EMBED_FILES ${CMAKE_CURRENT_LIST_FILE})
  function(nano_embed_files output template folder pattern part)
    file(GLOB paths CONFIGURE_DEPENDS ${folder}/${pattern})
    add_custom_command(
      OUTPUT ${output}
      COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DTEMPLATE=${template} -DFOLDER=${folder} -DPATTERN=${pattern} -DPART=${part}
              -P ${NANO_EMBED_FILES}
      DEPENDS ${template} ${NANO_EMBED_FILES} ${paths}
      COMMENT "Embedding ${folder}/${pattern}"
      VERBATIM)
  endfunction()
  return()
endif()

file(GLOB paths ${FOLDER}/${PATTERN})
list(SORT paths)
set(files "")
foreach(path ${paths})
  get_filename_component(name ${path} ${PART})
  file(READ ${path} text)
  string(APPEND files "      {\"${name}\", R\"nano(${text})nano\"},\n")
endforeach()
configure_file(${TEMPLATE} ${OUTPUT} @ONLY)
