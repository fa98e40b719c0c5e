// PyTorch's message of an allocation that failed tells whether free memory was in pieces: only then do other settings
// of the allocator help.
#include "core/base/allocator_settings.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include "tests/support/out_of_memory_breakdown.h"
#include "tests/support/run_program.h"
namespace memtune::allocator_settings_test {
namespace {

std::string limited(const std::string& asked, const std::string& allowed) {
  return "CUDA out of memory. Tried to allocate " + asked +
         ". GPU 0 has a total capacity of 79.18 GiB of which 59.63 GiB is free. Including non-PyTorch memory, this "
         "process has 19.52 GiB memory in use. " +
         allowed +
         " allowed; Of the allocated memory 14.75 GiB is allocated by PyTorch, and 2.00 GiB is reserved by PyTorch but "
         "unallocated. If reserved but unallocated memory is large try setting ";
}

TEST_CASE("free memory is in pieces if what was asked for would have fitted") {
  CHECK(says_fragmented(test::out_of_memory_text()));  // 2 GiB asked, 7.01 free in pieces
  CHECK_FALSE(says_fragmented(
      "CUDA out of memory. Tried to allocate 9.00 GiB. 7.01 GiB is reserved by PyTorch but unallocated."));
  CHECK(says_fragmented(limited("3.91 GiB", "19.26 GiB")));  // 18.66 of 19.26, in pieces and beside the segments
  CHECK_FALSE(says_fragmented(limited("3.91 GiB", "18.65 GiB")));
  CHECK(says_fragmented(limited("20.00 MiB", "16.75 GiB")));
  for (const char* other : {"", "CUDA out of memory.", "Tried to allocate ", "Tried to allocate much.",
                            "Tried to allocate much. is reserved by PyTorch but unallocated",
                            "Tried to allocate 1.00 GiB. is reserved by PyTorch but unallocated",
                            " is reserved by PyTorch but unallocated Tried to allocate 1 GiB"})
    CHECK_FALSE_MESSAGE(says_fragmented(other), other);
}

TEST_CASE("an out-of-memory message names the bytes that were asked for") {
  CHECK(asked_bytes(test::out_of_memory_text()) == int64_t{2} << 30);
  CHECK(asked_bytes("CPU device out of memory: tried to allocate 401 bytes, 100 allocated") == 401);
  CHECK_FALSE(asked_bytes("out of memory").has_value());
}

TEST_CASE("settings are added to those of the variable that PyTorch reads") {
  const test::Variable older("PYTORCH_CUDA_ALLOC_CONF", "b:2"),
      newer("PYTORCH_ALLOC_CONF", "expandable_segments:False");
  CHECK(allocator_environment("a:1") == "PYTORCH_CUDA_ALLOC_CONF=b:2,a:1");
  CHECK(may_expand_segments());
  unsetenv("PYTORCH_CUDA_ALLOC_CONF");
  CHECK(allocator_environment("a:1") == "PYTORCH_ALLOC_CONF=expandable_segments:False,a:1");
  CHECK_FALSE(may_expand_segments());
  CHECK_FALSE(expands_segments());
  setenv("PYTORCH_ALLOC_CONF", "a:1,expandable_segments:True", 1);
  CHECK_FALSE(may_expand_segments());
  CHECK(expands_segments());
  setenv("PYTORCH_ALLOC_CONF", "expandable_segments:False", 1);
  unsetenv("PYTORCH_ALLOC_CONF");
  CHECK(allocator_environment("a:1") == "PYTORCH_CUDA_ALLOC_CONF=a:1");
}

}  // namespace
}  // namespace memtune::allocator_settings_test
