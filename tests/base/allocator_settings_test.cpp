// PyTorch's message of an allocation that failed tells whether free memory was in pieces: only then do other settings
// of the allocator help.
#include "core/base/allocator_settings.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/support/out_of_memory.h"
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

}  // namespace
}  // namespace memtune::allocator_settings_test
