// A tensor is a view of a record. One that exceeds the record would grow its memory and hold uninitialized bytes.
#include "core/model/pt2/pt2_tensor_entry.h"

#include <doctest/doctest.h>

#include <limits>

#include "core/base/error.h"
#include "tests/pt2/made_up_pt2.h"
namespace memtune::model::pt2_tensor_metadata_test {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

bool fits(std::vector<int64_t> sizes, std::vector<int64_t> strides, int64_t offset, int64_t bytes) {
  try {
    check_fits({"w", "weight_0", 7, std::move(sizes), std::move(strides), offset, true}, bytes);
  } catch (const UsageError&) {
    return false;
  }
  return true;
}

TEST_CASE("a tensor fits if its last element is in its record") {
  CHECK(fits({3, 4}, {4, 1}, 0, 48));
  CHECK_FALSE(fits({3, 4}, {4, 1}, 0, 47));
  CHECK(fits({3, 4}, {1, 3}, 0, 48));
  CHECK_FALSE(fits({3, 4}, {1, 4}, 0, 48));
  CHECK(fits({3, 4}, {0, 0}, 11, 48));
  CHECK_FALSE(fits({3, 4}, {0, 0}, 12, 48));
  CHECK(fits({}, {}, 0, 4));
  CHECK_FALSE(fits({}, {}, 0, 3));
  CHECK(fits({0, 4}, {kMax, kMax}, 0, 0));
  CHECK_FALSE(fits({0, 4}, {4, 1}, 1, 3));
  CHECK_FALSE(fits({3}, {4, 1}, 0, 48));
}

TEST_CASE("sizes that overflow do not fit") {
  CHECK_FALSE(fits({kMax, kMax}, {kMax, 1}, 0, 48));
  CHECK_FALSE(fits({kMax}, {1}, kMax, 48));
  CHECK_FALSE(fits({2}, {kMax}, 0, 48));
  CHECK_FALSE(fits({1}, {1}, kMax, 48));
  CHECK_FALSE(fits({kMax}, {1}, 1, kMax));
}

std::string refusal(const test::MadeUpPt2& made) {
  try {
    parse_pt2_tensors(made.weights.dump(), "data/weights/");
  } catch (const UsageError& error) {
    return error.what();
  } catch (const nlohmann::json::exception&) {
    return "json";
  }
  return "";
}

TEST_CASE("a weights config gives the record and the form of each tensor and whether it is trained") {
  const auto tensors = parse_pt2_tensors(test::MadeUpPt2().weights.dump(), "data/weights/");
  REQUIRE(tensors.size() == 1);
  CHECK(tensors[0].name == "up.weight");
  CHECK(tensors[0].record == "data/weights/weight_0");
  CHECK(tensors[0].sizes == std::vector<int64_t>{3, 4});
  CHECK(tensors[0].strides == std::vector<int64_t>{4, 1});
  CHECK(tensors[0].trained);
}

TEST_CASE("tensors that are no plain views of bytes are refused with the reason") {
  const auto with = [](const char* key, const nlohmann::json& value) {
    test::MadeUpPt2 made;
    made.weight()[key] = value;
    return refusal(made);
  };
  CHECK(with("dtype", 99) == "'up.weight' has an unknown dtype, number 99");
  CHECK(with("layout", 1) == "'up.weight' is a sparse tensor");
  CHECK(with("device", {{"type", "meta"}}) ==
        "'up.weight' was exported on the meta device: the archive has no weights");
  CHECK(with("sizes", {{{"as_expr", {{"expr_str", "s0"}}}}}) == "its tensor 'up.weight' has no fixed size");
  CHECK(with("sizes", {{{"as_int", -1}}}) == "json");
  CHECK(with("storage_offset", {{"as_int", -1}}) == "json");
  test::MadeUpPt2 pickled;
  pickled.weights["config"]["up.weight"]["use_pickle"] = true;
  CHECK(refusal(pickled) == "'up.weight' is pickled: a tensor of a class of its own, or an object");
}

}  // namespace
}  // namespace memtune::model::pt2_tensor_metadata_test
