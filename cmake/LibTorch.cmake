# LibTorch as imported targets, from a Python wheel, a Python environment or an unpacked archive. (find_package(Torch)
# fails with CMake 3.25 and C++20, and would link all CUDA libraries.)
#
#   torch::cpu       linked by memtune-trial
#   torch::cuda      linked by the CUDA device, a module that is loaded at run time
#   cuda::cudart, cuda::cupti

set(MEMTUNE_TORCH_DIR "" CACHE PATH "torch package folder or unpacked libtorch (has include/ and lib/)")
set(MEMTUNE_TORCH_EXPECTED "" CACHE STRING "minor release that has to be found, such as 2.15; empty: any")
set(MEMTUNE_TORCH_PYTHON "" CACHE FILEPATH "python whose torch is taken when MEMTUNE_TORCH_DIR is empty")

set(torch "${MEMTUNE_TORCH_DIR}")
foreach(python IN ITEMS "${MEMTUNE_TORCH_PYTHON}" python3)
  if(NOT torch AND python)  # find_spec does not import torch, so it is fast and needs none of torch's dependencies
    execute_process(COMMAND "${python}" -c
      "from importlib.util import find_spec as f; s = f('torch'); print(s.submodule_search_locations[0] if s else '')"
      OUTPUT_VARIABLE torch OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
endforeach()
if(NOT EXISTS "${torch}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "LibTorch not found: scripts/memtune installs it; or pass -DMEMTUNE_TORCH_PYTHON=<python with "
                      "torch 2.11 to 2.15> or -DMEMTUNE_TORCH_DIR=<folder with include/ and lib/>")
endif()
file(GLOB version_file "${torch}/version.py" "${torch}/build-version")  # wheel | archive
file(STRINGS "${version_file}" torch_version REGEX "[0-9]+\\.[0-9]+\\.[0-9]+" LIMIT_COUNT 1)
if(NOT torch_version MATCHES "(2\\.1[1-5])\\.")
  message(FATAL_ERROR "memtune needs LibTorch 2.11 to 2.15, found ${torch_version} in ${torch}")
endif()
set(MEMTUNE_TORCH_MINOR ${CMAKE_MATCH_1})
if(MEMTUNE_TORCH_EXPECTED AND NOT MEMTUNE_TORCH_EXPECTED STREQUAL MEMTUNE_TORCH_MINOR)
  message(FATAL_ERROR "LibTorch ${MEMTUNE_TORCH_EXPECTED} was asked for, found ${MEMTUNE_TORCH_MINOR} in ${torch}")
endif()
get_filename_component(nvidia "${torch}/../nvidia" ABSOLUTE)  # the wheels' CUDA libraries

function(memtune_import target file)
  if(NOT EXISTS "${file}")
    message(FATAL_ERROR "${target}: there is no ${file}")
  endif()
  add_library(${target} SHARED IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION "${file}")
endfunction()

memtune_import(torch::c10 "${torch}/lib/libc10.so")
target_include_directories(torch::c10 SYSTEM INTERFACE "${torch}/include" "${torch}/include/torch/csrc/api/include")
# The build machine may lack LibTorch's CUDA libraries.
target_link_options(torch::c10 INTERFACE LINKER:--allow-shlib-undefined)
memtune_import(torch::cpu "${torch}/lib/libtorch_cpu.so")
target_link_libraries(torch::cpu INTERFACE torch::c10)

if(EXISTS "${nvidia}/cu13/lib/libcudart.so.13")  # the copies that LibTorch itself loads: one cudart, one CUPTI
  set(cuda_lib "${nvidia}/cu13/lib")
  set(cuda_include "${nvidia}/cu13/include")
else()
  find_package(CUDAToolkit 13.0 QUIET)
  set(cuda_lib "${CUDAToolkit_LIBRARY_DIR}")
  set(cuda_include "${CUDAToolkit_INCLUDE_DIRS}")
endif()
# libtorch_cpu needs both at run time, even without a GPU. CMake's own rpath handling would drop folders in the source
# tree, where a Python environment may be. An empty path would mean the current folder.
foreach(folder IN ITEMS "${torch}/lib" "${cuda_lib}")
  if(folder AND NOT MEMTUNE_RUNPATH)
    target_link_options(torch::cpu INTERFACE "LINKER:-rpath,${folder}")
  endif()
endforeach()

if(MEMTUNE_CUDA AND NOT EXISTS "${cuda_include}/cupti.h" AND NOT EXISTS "${cuda_lib}/libcupti.so.13")
  message(STATUS "no CUDA runtime and CUPTI found: building for the CPU only")
  set(MEMTUNE_CUDA OFF)
endif()
if(MEMTUNE_CUDA)
  memtune_import(cuda::cudart "${cuda_lib}/libcudart.so.13")
  target_include_directories(cuda::cudart SYSTEM INTERFACE "${cuda_include}")
  memtune_import(cuda::cupti "${cuda_lib}/libcupti.so.13")
  target_link_libraries(cuda::cupti INTERFACE cuda::cudart)
  memtune_import(torch::c10_cuda "${torch}/lib/libc10_cuda.so")
  target_link_libraries(torch::c10_cuda INTERFACE torch::c10 cuda::cudart)
  memtune_import(torch::cuda "${torch}/lib/libtorch_cuda.so")
  target_link_libraries(torch::cuda INTERFACE torch::cpu torch::c10_cuda)
  # LibTorch's NCCL headers include NCCL's own headers, which may be missing.
  find_path(cuda_nccl nccl.h PATHS "${nvidia}/nccl/include" "${cuda_include}" NO_CACHE)
  # No code refers to symbols of libtorch_cuda: its kernels register themselves when it is loaded.
  target_link_options(torch::cuda INTERFACE LINKER:--no-as-needed)
endif()
