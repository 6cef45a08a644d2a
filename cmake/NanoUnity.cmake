# Sources compiled together: several of a folder as one text, so that what they include and instantiate alike is
# compiled once.
option(NANO_UNITY "Compile several sources of a folder as one: less to do for all, more for who changes one" ON)
if(NANO_UNITY)
  # A group is taken from its library as a whole; what of it nothing calls is left out when it is linked.
  add_compile_options(-ffunction-sections -fdata-sections)
  add_link_options(LINKER:--gc-sections)
endif()

# nano_unity(NAME): up to six of a folder's sources of a target are compiled as one. What these keep to themselves has
# one name space: names must differ, and namespaces that they use must not clash. A source with options of its own, or
# that nano_apart names, is compiled alone.
function(nano_unity name)
  if(NOT NANO_UNITY)
    return()
  endif()
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${name} SOURCES)
  list(FILTER sources INCLUDE REGEX "[.]cpp$")
  set(folders "")
  foreach(source ${sources})
    get_filename_component(source ${source} ABSOLUTE)
    get_source_file_property(isApart ${source} SKIP_UNITY_BUILD_INCLUSION)
    if(NOT isApart)
      get_filename_component(folder ${source} DIRECTORY)
      file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${folder})
      string(MAKE_C_IDENTIFIER ${folder} folder)
      list(APPEND folders ${folder})
      list(APPEND sources_${folder} ${source})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder ${folders})
    # Groups as even as can be.
    list(LENGTH sources_${folder} count)
    math(EXPR groups "(${count} + 5) / 6")
    set(number 0)
    foreach(source ${sources_${folder}})
      math(EXPR group "${number} * ${groups} / ${count}")
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder}_${group})
      math(EXPR number "${number} + 1")
    endforeach()
  endforeach()
endfunction()

# nano_apart(SOURCES...): sources of this folder that are compiled alone; to be called before their target is made.
function(nano_apart)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# nano_closed(NAME): a module that shows nothing of the static libraries in it, so that what it does not call of their
# groups is left out.
function(nano_closed name)
  target_link_options(${name} PRIVATE LINKER:--exclude-libs,ALL)
endfunction()
