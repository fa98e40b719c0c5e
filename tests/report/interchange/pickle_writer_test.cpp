// The reader of memory_viz supports only these opcodes. report_files_test.py reads whole snapshots with Python.
#include "core/answer/report/interchange/pickle_writer.h"

#include <doctest/doctest.h>

namespace memtune::pickle_writer_test {

using memtune::report::PickleWriter;
using namespace std::string_literals;

TEST_CASE("pickle writes a dict with a list and a tuple and numbers and booleans") {
  PickleWriter pickle;
  pickle.begin_dict();
  pickle.text("a");
  pickle.begin_list();
  pickle.integer(1);
  pickle.integer(-2);
  pickle.end_list();
  pickle.text("b");
  pickle.begin_tuple();
  pickle.boolean(true);
  pickle.boolean(false);
  pickle.end_tuple();
  pickle.end_dict();
  CHECK(std::move(pickle).finish() ==
        "\x80\x02}(X\x01\0\0\0ar\0\0\0\0](J\x01\0\0\0J\xFE\xFF\xFF\xFF\x65X\x01\0\0\0br\x01\0\0\0(\x88\x89tu."s);
}

TEST_CASE("pickle writes a number beyond 32 bits with eight bytes") {
  PickleWriter pickle;
  pickle.integer(int64_t{1} << 33);
  CHECK(std::move(pickle).finish() == "\x80\x02\x8a\x08\0\0\0\0\x02\0\0\0."s);
}

TEST_CASE("pickle writes a repeated text as a reference") {
  PickleWriter pickle;
  pickle.begin_list();
  pickle.text("same");
  pickle.text("same");
  pickle.end_list();
  CHECK(std::move(pickle).finish() == "\x80\x02](X\x04\0\0\0samer\0\0\0\0j\0\0\0\0e."s);
}

}  // namespace memtune::pickle_writer_test
