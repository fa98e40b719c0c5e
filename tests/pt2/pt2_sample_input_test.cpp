// Sample inputs are read for the values of masks and positions. Nothing outside of the file is read, whatever it
// contains.
#include "core/model/pt2/pt2_sample_input.h"

#include <doctest/doctest.h>

#include "tests/pt2/made_up_zip.h"
namespace memtune::model::pt2_sample_input_test {
namespace {

using namespace std::string_literals;
using Numbers = std::vector<int64_t>;

std::string number(int64_t value) { return "J" + test::little(static_cast<uint64_t>(value), 4); }
std::string text(const std::string& value) { return "X" + test::little(value.size(), 4) + value; }

std::string tensor(const std::string& storage, int64_t offset, const Numbers& sizes, const Numbers& strides) {
  const auto tuple = [](const Numbers& values) {
    std::string all = "(";
    for (const int64_t value : values) all += number(value);
    return all + "t";
  };
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + "ctorch\n" + storage + "\n" + text("0") +
         text("cpu") + "K\x06tQ" + number(offset) + tuple(sizes) + tuple(strides) + "\x89}tR";
}

// ((tensor,), {"mask": tensor}) with six numbers in the record.
std::vector<Pt2SampleInput> samples(const std::string& tensor) {
  std::string numbers;
  for (int64_t i = 0; i < 6; ++i) numbers += test::little(static_cast<uint64_t>(10 * i - 20), 8);
  const std::string pickle = "\x80\x02" + tensor + "\x85}" + text("mask") + tensor + "s\x86.";
  return parse_pt2_samples(test::zip({{"data.pkl", pickle}, {"data/0", numbers}, {"version", "3"}}));
}

TEST_CASE("integer tensors are read in their order by sizes and strides") {
  const auto found = samples(tensor("LongStorage", 0, {2, 3}, {3, 1}));
  REQUIRE(found.size() == 2);
  CHECK(found[0].storage == "LongStorage");
  CHECK(found[0].sizes == Numbers{2, 3});
  CHECK(found[0].values == Numbers{-20, -10, 0, 10, 20, 30});
  CHECK(found[1].values == found[0].values);
  CHECK(samples(tensor("LongStorage", 1, {2, 2}, {1, 2}))[0].values == Numbers{-10, 10, 0, 20});
  CHECK(samples(tensor("LongStorage", 5, {}, {}))[0].values == Numbers{30});
  CHECK(samples(tensor("ByteStorage", 0, {2}, {8}))[0].values == Numbers{0xEC, 0xF6});
}

TEST_CASE("a tensor with attributes that export adds to dynamic ones is read like another") {
  const std::string plain = tensor("LongStorage", 0, {6}, {1});
  const size_t arguments = plain.find('(');
  const std::string marked = "ctorch._tensor\n_rebuild_from_type_v2\n(" + plain.substr(0, arguments) +
                             "ctorch\nTensor\n" + plain.substr(arguments, plain.size() - arguments - 1) + "}" +
                             text("_dynamic") + "}stR";
  CHECK(samples(marked)[1].values == Numbers{-20, -10, 0, 10, 20, 30});
}

TEST_CASE("other tensors have sizes and no values") {
  const auto found = samples(tensor("FloatStorage", 0, {2, 3}, {3, 1}));
  REQUIRE(found.size() == 2);
  CHECK(found[0].sizes == Numbers{2, 3});
  CHECK(found[0].values.empty());
}

TEST_CASE("the values of a tensor that exceeds its record are not read") {
  for (const std::string& wrong :
       {tensor("LongStorage", 0, {7}, {1}), tensor("LongStorage", 1, {2, 3}, {3, 1}),
        tensor("LongStorage", -1, {2}, {1}), tensor("LongStorage", 0, {-2}, {1}), tensor("LongStorage", 0, {2}, {-1}),
        tensor("LongStorage", 0, {2, 2}, {1}), tensor("LongStorage", 0, {1 << 30, 1 << 30}, {0, 0}),
        tensor("LongStorage", 0, {1 << 28}, {0})}) {
    const auto found = samples(wrong);
    REQUIRE(found.size() == 2);
    CHECK(found[0].values.empty());
  }
}

TEST_CASE("a file that torch.save did not write has no samples") {
  CHECK(parse_pt2_samples("").empty());
  CHECK(parse_pt2_samples(test::zip({{"data/0", "x"}})).empty());
  CHECK(parse_pt2_samples(test::zip({{"data.pkl", "x"}})).empty());
  CHECK(samples("cos\nsystem\n" + text("ls") + "\x85R").empty());
}

TEST_CASE("a file with any byte changed is read or has no samples") {
  const std::string pickle = "\x80\x02" + tensor("LongStorage", 0, {2, 3}, {3, 1}) + ".";
  const std::string whole = test::zip({{"data.pkl", pickle}, {"data/0", std::string(48, '\1')}});
  REQUIRE(parse_pt2_samples(whole).size() == 1);
  for (size_t at = 0; at < whole.size(); ++at)
    for (const char value : {'\x00', '\x7f', '\xff'}) {
      std::string damaged = whole;
      damaged[at] = value;
      parse_pt2_samples(damaged);  // any answer
    }
}

}  // namespace
}  // namespace memtune::model::pt2_sample_input_test
