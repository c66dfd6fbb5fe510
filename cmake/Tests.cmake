# Tests: every tests/unit/FOLDER/test_*.c is a cmocka program linked with the
# library of that folder; every tests/e2e/*.sh runs with the built programs.

# To build what one pass of scripts/test.sh runs, and no more: ctest -L unit, scripts/fuzz.sh.
add_custom_target(unit_tests)
add_custom_target(fuzzers)

function(tm_unit_tests folder)
	if(NOT TIDEMARK_TESTS)
		return()
	endif()
	file(GLOB sources CONFIGURE_DEPENDS tests/unit/${folder}/test_*.c)
	foreach(source IN LISTS sources)
		get_filename_component(name ${source} NAME_WE)
		set(target unit_${folder}_${name})
		add_executable(${target} ${source})
		target_include_directories(${target} PRIVATE tests/unit)
		target_compile_definitions(${target} PRIVATE TESTS_DIR="${CMAKE_SOURCE_DIR}/tests"
			BUILD_DIR="${CMAKE_BINARY_DIR}")
		# so that a device which is loaded finds what it needs of the program
		if(TIDEMARK_HAS_CUDA AND "tm_device" IN_LIST ARGN)
			set_target_properties(${target} PROPERTIES ENABLE_EXPORTS ON CUDA_RUNTIME_LIBRARY Shared)
			target_link_libraries(${target} PRIVATE ${TM_EXPORTED})
		endif()
		target_link_libraries(${target} PRIVATE ${ARGN} Tidemark::cmocka tm_options)
		add_dependencies(unit_tests ${target})
		add_test(NAME unit.${folder}.${name} COMMAND ${target})
		set_tests_properties(unit.${folder}.${name} PROPERTIES TIMEOUT 240 LABELS unit SKIP_RETURN_CODE 77
			ENVIRONMENT "OMP_WAIT_POLICY=passive")
		# half a minute and more: ctest -LE slow leaves them out
		if(name MATCHES "_slow$")
			set_tests_properties(unit.${folder}.${name} PROPERTIES TIMEOUT 900 LABELS "unit;slow")
		endif()
	endforeach()
endfunction()

if(TIDEMARK_TESTS)
	find_path(CMOCKA_INCLUDE_DIR NAMES cmocka.h)
	find_library(CMOCKA_LIBRARY NAMES cmocka)
	if(NOT CMOCKA_INCLUDE_DIR OR NOT CMOCKA_LIBRARY)
		message(FATAL_ERROR "cmocka was not found; on Debian and Ubuntu: apt install libcmocka-dev")
	endif()
	add_library(Tidemark::cmocka UNKNOWN IMPORTED)
	set_target_properties(Tidemark::cmocka PROPERTIES IMPORTED_LOCATION ${CMOCKA_LIBRARY}
		INTERFACE_INCLUDE_DIRECTORIES ${CMOCKA_INCLUDE_DIR})
endif()

tm_unit_tests(base tm_base)
tm_unit_tests(spec tm_spec tm_base)
tm_unit_tests(store tm_store tm_base)
tm_unit_tests(judge tm_judge tm_base)
tm_unit_tests(card tm_card tm_base)
tm_unit_tests(run tm_run tm_spec tm_store tm_judge tm_base)
tm_unit_tests(draw tm_draw tm_store tm_judge tm_base)
tm_unit_tests(memory tm_memory tm_base)
tm_unit_tests(snapshot tm_snapshot tm_memory tm_base)
tm_unit_tests(replay tm_replay tm_snapshot tm_memory tm_base)
tm_unit_tests(device tm_device_cpu tm_device_builtin tm_device tm_memory tm_base)
if(TIDEMARK_TESTS AND TARGET unit_device_test_forward)
	# the way in which these tests run on a card (tests/unit/device/mirror.h), where there is none
	add_test(NAME unit.device.mirror COMMAND unit_device_test_forward)
	set_tests_properties(unit.device.mirror PROPERTIES TIMEOUT 240 LABELS unit
		ENVIRONMENT "OMP_WAIT_POLICY=passive;TIDEMARK_TEST_DEVICE=cpu:")
endif()
tm_unit_tests(model ${TM_WORK_LIBS} tm_device_cpu tm_device_builtin tm_base)
tm_unit_tests(workloads ${TM_WORK_LIBS} tm_device_cpu tm_device_builtin tm_base)
tm_unit_tests(plan ${TM_WORK_LIBS} tm_device_cpu tm_device_builtin tm_judge tm_base)
# Some of them run the programs.
foreach(program tidemark-work tidemark-guard)
	if(TARGET ${program})
		add_dependencies(unit_tests ${program})
	endif()
endforeach()
# The host side of the CUDA device; none of these tests needs a card.
if(TIDEMARK_HAS_CUDA)
	tm_unit_tests(cuda tm_device_cuda tm_device_cuda_kernels ${TM_WORK_LIBS} tm_base tm_cuda)
endif()

# A library in place of NVML, whose cards a script describes.
if(TIDEMARK_TESTS)
	add_library(fake_nvml MODULE tests/unit/card/fake_nvml.c)
	set_target_properties(fake_nvml PROPERTIES PREFIX "")
	target_include_directories(fake_nvml PRIVATE harness)
	target_link_libraries(fake_nvml PRIVATE tm_options Threads::Threads)
	file(GLOB sources CONFIGURE_DEPENDS tests/unit/card/test_*.c)
	foreach(source IN LISTS sources)
		get_filename_component(name ${source} NAME_WE)
		add_dependencies(unit_card_${name} fake_nvml)
	endforeach()
	add_dependencies(unit_run_test_oncard fake_nvml)
endif()

if(TIDEMARK_TESTS)
	file(GLOB scripts CONFIGURE_DEPENDS tests/e2e/*.sh)
	foreach(script IN LISTS scripts)
		get_filename_component(name ${script} NAME_WE)
		if(name MATCHES "^_")
			continue()
		endif()
		add_test(NAME e2e.${name} COMMAND bash ${script})
		set_tests_properties(e2e.${name} PROPERTIES TIMEOUT 300 LABELS e2e SKIP_RETURN_CODE 77
			ENVIRONMENT "TIDEMARK_BUILD=${CMAKE_BINARY_DIR};TIDEMARK_SOURCE=${CMAKE_SOURCE_DIR}")
	endforeach()
endif()

# libFuzzer targets: tests/fuzz/fuzz_FOLDER_*.c, linked with tm_FOLDER.
if(TIDEMARK_FUZZ)
	file(GLOB fuzzers CONFIGURE_DEPENDS tests/fuzz/fuzz_*.c)
	foreach(source IN LISTS fuzzers)
		get_filename_component(name ${source} NAME_WE)
		string(REGEX REPLACE "^fuzz_([a-z]+).*" "\\1" folder ${name})
		add_executable(${name} ${source})
		target_link_options(${name} PRIVATE -fsanitize=fuzzer)
		target_link_libraries(${name} PRIVATE tm_${folder} tm_base tm_options)
		add_dependencies(fuzzers ${name})
	endforeach()
endif()

# The longest first, so that at the end no core waits for the last test. Only the order depends on these
# (about the seconds under the sanitizers, or without them for what runs only without them), and only the
# first time: later ctest goes by what it has measured.
set(TM_LONG_TESTS
	unit.model.test_precision_slow 70 unit.run.test_advise 50 unit.plan.test_equal 50 unit.model.test_invariance 50
	unit.device.test_attention 40 unit.device.test_flash 40 unit.run.test_kill 40 unit.device.test_linear 35
	unit.memory.test_conf 35 unit.snapshot.test_hostile 30 unit.device.test_threads 28 unit.model.test_learns 27
	unit.model.test_allocations 25 unit.memory.test_model 22 unit.draw.test_report 20 unit.model.test_checks_step 20
	unit.device.test_gradient 16 unit.store.test_hard 15 unit.run.test_guard 14 unit.plan.test_plan 14
	unit.model.test_split 14 unit.model.test_saved 14 unit.memory.test_cost 14
	e2e.add_workload 45 e2e.bad_spec 23 e2e.injection 15 e2e.kill 15 e2e.smoke 15 e2e.pytorch_events 13 e2e.hangs 13)
while(TM_LONG_TESTS)
	list(POP_FRONT TM_LONG_TESTS name seconds)
	if(TEST ${name})
		set_tests_properties(${name} PROPERTIES COST ${seconds})
	endif()
endwhile()
