// The out-of-memory message of PyTorch 2.11's CUDACachingAllocator, assembled from strings of libc10_cuda.so.
#pragma once

#include <string>

namespace memtune::test {

// `processes`: number of other processes on the device.
inline std::string out_of_memory_text(int processes = 1) {
  std::string text =
      "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.18 GiB of which 1.06 GiB is "
      "free. ";
  for (int i = 0; i < processes; ++i) text += "Process " + std::to_string(4123 + i) + " has 1.75 GiB memory in use. ";
  return text +
         "Including non-PyTorch memory, this process has 70.10 GiB memory in use. Of the allocated memory 62.25 GiB is "
         "allocated by PyTorch, with 1.50 GiB allocated in private pools (e.g., CUDA Graphs), and 7.01 GiB is reserved "
         "by PyTorch but unallocated. If reserved but unallocated memory is large try setting "
         "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory "
         "Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html"
         "#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)";
}

}  // namespace memtune::test
