# nano-fmt: the text formatting of nanorun and its devices as a library of the build. Debian has fmt as a shared library
# only, which a machine that nanorun is copied to may lack; as headers alone every source would compile all of it.
add_library(nano-fmt STATIC ${PROJECT_SOURCE_DIR}/cmake/Fmt.cpp)
target_compile_features(nano-fmt PUBLIC cxx_std_20)
