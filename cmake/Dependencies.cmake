# Libraries, each as an imported target Tidemark::NAME; static ones with
# TIDEMARK_PORTABLE. A missing one is reported with its Debian package.

function(tm_dependency name header package)
	# remaining arguments: library names to try
	if(TIDEMARK_PORTABLE)
		set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
	endif()
	string(TOUPPER ${name} upper)
	find_path(${upper}_INCLUDE_DIR NAMES ${header} PATH_SUFFIXES openblas-serial openblas-pthread x86_64-linux-gnu)
	find_library(${upper}_LIBRARY NAMES ${ARGN} PATH_SUFFIXES openblas-serial openblas-pthread)
	if(NOT ${upper}_INCLUDE_DIR OR NOT ${upper}_LIBRARY)
		message(FATAL_ERROR "${name} was not found; on Debian and Ubuntu: apt install ${package}")
	endif()
	add_library(Tidemark::${name} UNKNOWN IMPORTED GLOBAL)
	set_target_properties(Tidemark::${name} PROPERTIES IMPORTED_LOCATION ${${upper}_LIBRARY}
		INTERFACE_INCLUDE_DIRECTORIES ${${upper}_INCLUDE_DIR})
endfunction()

find_package(Threads REQUIRED)
tm_dependency(jansson jansson.h libjansson-dev jansson)
tm_dependency(md sha2.h libmd-dev md)
tm_dependency(yaml yaml.h libyaml-dev yaml)
tm_dependency(sqlite sqlite3.h libsqlite3-dev sqlite3)
target_link_libraries(Tidemark::sqlite INTERFACE Threads::Threads m ${CMAKE_DL_LIBS})
tm_dependency(lzma lzma.h liblzma-dev lzma)
tm_dependency(zlib zlib.h zlib1g-dev z)
tm_dependency(zstd zstd.h libzstd-dev zstd)
if(TIDEMARK_PORTABLE)
	target_link_libraries(Tidemark::lzma INTERFACE Threads::Threads)
endif()
if(TIDEMARK_FUZZ)
	return()         # the rest is what the training steps use
endif()
tm_dependency(cblas cblas.h libopenblas-dev openblas)
target_link_libraries(Tidemark::cblas INTERFACE Threads::Threads m)

# OpenMP: the flag for the compiler, the runtime by hand so that the portable
# build can take the archive.
find_package(OpenMP REQUIRED COMPONENTS C)
add_library(Tidemark::openmp INTERFACE IMPORTED GLOBAL)
target_compile_options(Tidemark::openmp INTERFACE ${OpenMP_C_FLAGS})
if(TIDEMARK_PORTABLE)
	execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=libgomp.a
		OUTPUT_VARIABLE gomp OUTPUT_STRIP_TRAILING_WHITESPACE)
	target_link_libraries(Tidemark::openmp INTERFACE ${gomp} Threads::Threads ${CMAKE_DL_LIBS})
else()
	target_link_libraries(Tidemark::openmp INTERFACE ${OpenMP_C_LIBRARIES})
endif()
