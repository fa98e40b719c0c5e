# memtune_use_torch(TARGET): links LibTorch and shares one precompiled header of it.

# One shared precompiled header. Every target that reuses it needs the same compile options and no PIC setting.
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/pch/anchor.cpp" CONTENT "int memtune_pch_anchor;\n")
add_library(memtune_pch STATIC "${PROJECT_BINARY_DIR}/pch/anchor.cpp")
target_link_libraries(memtune_pch PUBLIC memtune_options torch::cpu)
target_precompile_headers(memtune_pch PRIVATE
  <ATen/ATen.h> <torch/csrc/autograd/engine.h> <torch/csrc/autograd/saved_variable_hooks.h>
  <torch/csrc/jit/api/module.h> <torch/csrc/jit/ir/ir.h> <torch/csrc/jit/serialization/import.h>)

function(memtune_use_torch target)
  target_link_libraries(${target} PUBLIC torch::cpu)
  target_precompile_headers(${target} REUSE_FROM memtune_pch)
endfunction()
