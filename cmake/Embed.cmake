# What is compiled into the program: the commit it was built from, the
# description of the workloads, the gnuplot templates.

# tm_embed_build_info(OUT): commit, compiler, flags; refreshed at every build,
# rewritten only when it changes.
function(tm_embed_build_info out)
	add_custom_target(tm_build_info BYPRODUCTS ${out}
		COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DSOURCE=${CMAKE_SOURCE_DIR}
			"-DCOMPILER=${CMAKE_C_COMPILER_ID} ${CMAKE_C_COMPILER_VERSION}"
			"-DFLAGS=${CMAKE_BUILD_TYPE} ${CMAKE_C_FLAGS}"
			-P ${CMAKE_SOURCE_DIR}/cmake/BuildInfo.cmake
		VERBATIM)
	set_source_files_properties(${out} PROPERTIES GENERATED ON)
endfunction()

# tm_embed_description(OUT): what `tidemark-work --describe` prints, as a C string.
function(tm_embed_description out)
	add_custom_command(OUTPUT ${out}
		COMMAND tidemark-work --describe-c ${out}
		DEPENDS tidemark-work $<$<TARGET_EXISTS:tidemark-device-cpu>:tidemark-device-cpu> VERBATIM)
endfunction()
