# What is compiled into the program: the commit it was built from, the
# description of the workloads, the device files, pinned algorithms, the gnuplot templates and the
# style sheet of reports.

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

# tm_embed_files(TARGET TYPE HEADER NAME FILES…): the files as `const struct TYPE TYPEs[]`
# (Bytes.cmake), so that the program needs none of them beside it and nobody can
# put others in their place.
function(tm_embed_files target type header name)
	string(REPLACE ";" "," listed "${ARGN}")
	set(out ${CMAKE_BINARY_DIR}/generated/${type}s.c)
	add_custom_command(OUTPUT ${out}
		COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DTYPE=${type} -DHEADER=${header} -DNAME=${name} -DSOURCES=${listed}
			-P ${CMAKE_SOURCE_DIR}/cmake/Bytes.cmake
		DEPENDS ${ARGN} ${CMAKE_SOURCE_DIR}/cmake/Bytes.cmake VERBATIM)
	target_sources(${target} PRIVATE ${out})
endfunction()

# tm_embed_cards(TARGET): every configs/devices/*.yaml, by name.
function(tm_embed_cards target)
	file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/configs/devices/*.yaml)
	tm_embed_files(${target} card_file spec/card_files.h NAME_WLE ${files})
endfunction()

# tm_embed_plots(TARGET): every plots/*.gp and plots/*.css.
function(tm_embed_plots target)
	file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/plots/*.gp ${CMAKE_SOURCE_DIR}/plots/*.css)
	tm_embed_files(${target} plot_file draw/plot.h NAME ${files})
endfunction()

# tm_embed_gemm(TARGET): every configs/gemm/*.json, pinned algorithms of the matrix products; there may be none.
function(tm_embed_gemm target)
	file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/configs/gemm/*.json)
	tm_embed_files(${target} gemm_file device/cuda/gemm_pins.h NAME_WLE ${files})
endfunction()
