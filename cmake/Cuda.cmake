# The CUDA device: built where a toolkit (nvcc, cuBLAS) and cuDNN are
# found. Sets TIDEMARK_HAS_CUDA and TM_CUDA_LIBS; the kernels are compiled for
# CMAKE_CUDA_ARCHITECTURES (default: TIDEMARK_CUDA_ARCHS).
#
#   TIDEMARK_CUDA        AUTO: where it can be built; ON: or stop; OFF
#   TIDEMARK_CUDA_ARCHS  compute capabilities without the dot, such as
#                        "75;80;89;90" for a release (70 up to CUDA 12), or native
set(TIDEMARK_CUDA AUTO CACHE STRING "build the CUDA device: AUTO, ON or OFF")
set(TIDEMARK_CUDA_ARCHS 90 CACHE STRING "compute capabilities to compile kernels for")
set(TIDEMARK_HAS_CUDA OFF)

function(tm_cuda_missing what)
	if(TIDEMARK_CUDA STREQUAL "ON")
		message(FATAL_ERROR "TIDEMARK_CUDA is ON, but ${what} was not found")
	endif()
	message(STATUS "the CUDA device is left out: ${what} was not found")
endfunction()

if(TIDEMARK_FUZZ OR TIDEMARK_SANITIZE OR TIDEMARK_CUDA STREQUAL "OFF")
	return()
endif()

include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
	tm_cuda_missing("nvcc")
	return()
endif()
set(CMAKE_CUDA_ARCHITECTURES ${TIDEMARK_CUDA_ARCHS})
enable_language(CUDA)
find_package(CUDAToolkit)
foreach(part CUDA::cudart CUDA::cublasLt)
	if(NOT TARGET ${part})
		tm_cuda_missing("${part} of the toolkit")
		return()
	endif()
endforeach()
set(found_suffixes ${CMAKE_FIND_LIBRARY_SUFFIXES})
set(CMAKE_FIND_LIBRARY_SUFFIXES .so)      # CUDA's libraries are shared in the portable build too
find_path(CUDNN_INCLUDE_DIR NAMES cudnn_graph.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${CUDAToolkit_TARGET_DIR}/include
	${CUDAToolkit_BIN_DIR}/../include)
find_library(CUDNN_LIBRARY NAMES cudnn HINTS ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_BIN_DIR}/../lib)
set(CMAKE_FIND_LIBRARY_SUFFIXES ${found_suffixes})
foreach(part CUDNN_INCLUDE_DIR CUDNN_LIBRARY)
	if(NOT ${part})
		tm_cuda_missing("${part} (cuDNN)")
		return()
	endif()
endforeach()

add_library(tm_cuda INTERFACE)
target_include_directories(tm_cuda SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS} ${CUDNN_INCLUDE_DIR})
# No libcuda: what is needed of the driver is asked for when there is one.
target_link_libraries(tm_cuda INTERFACE CUDA::cudart CUDA::cublasLt ${CUDNN_LIBRARY} ${CMAKE_DL_LIBS})
set(TIDEMARK_HAS_CUDA ON)
# As the device says it to people: "75, 80", or the card that "native" found.
set(TM_CUDA_ARCHS_TEXT ${TIDEMARK_CUDA_ARCHS})
if(TIDEMARK_CUDA_ARCHS STREQUAL "native" AND CMAKE_CUDA_ARCHITECTURES_NATIVE)
	set(TM_CUDA_ARCHS_TEXT ${CMAKE_CUDA_ARCHITECTURES_NATIVE})
endif()
list(JOIN TM_CUDA_ARCHS_TEXT ", " TM_CUDA_ARCHS_TEXT)
