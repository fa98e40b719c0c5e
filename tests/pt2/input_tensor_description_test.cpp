// A program must not run with sizes that it does not support: some give no error but wrong numbers.
#include "core/model/pt2/input_tensor_description.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
namespace memtune::model::input_description_test {
namespace {

using Shapes = std::vector<std::vector<int64_t>>;

const InputTensorDescription kTokens{"tokens", "int64", {{2, "b", 2}, {12, "t", 2, 64}}};
const InputTensorDescription kMask{"mask", "bool", {{2, "b", 2}, {1, ""}, {12, "t", 2, 64}, {12, "t", 2, 64}}};
const InputTensorDescription kImage{"image", "float32", {{2, "c", 2}, {3, ""}, {32, ""}}};

std::string refusal(const std::vector<int64_t>& shape) {
  try {
    check_shape(kTokens, shape);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("batch and sequence replace dynamic sizes and all sizes of the same symbol") {
  CHECK(resize({kTokens, kMask}, 0, 0) == Shapes{{2, 12}, {2, 1, 12, 12}});
  CHECK(resize({kTokens, kMask}, 5, 0) == Shapes{{5, 12}, {5, 1, 12, 12}});
  CHECK(resize({kTokens, kMask}, 0, 30) == Shapes{{2, 30}, {2, 1, 30, 30}});
  CHECK(resize({kTokens, kImage}, 4, 7) == Shapes{{4, 7}, {4, 3, 32}});
}

TEST_CASE("a sample is repeated to fill larger sizes") {
  const InputTensorDescription mask{"mask", "bool", {{2, "b", 2}, {3, "t", 2}}, {1, 1, 1, 1, 0, 0}};
  using Numbers = std::vector<int64_t>;
  CHECK(repeat_sample(mask, {2, 3}) == mask.sample);
  CHECK(repeat_sample(mask, {3, 4}) == Numbers{1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1});
  CHECK(repeat_sample(mask, {1, 2}) == Numbers{1, 1});
}

TEST_CASE("a batch that the export fixed is refused with advice") {
  const InputTensorDescription fixed{"x", "float32", {{2, ""}, {3, ""}}};
  CHECK_THROWS_WITH_AS(resize({fixed}, 4, 0),
                       "--batch: the model was exported for the sizes of its sample alone; say dynamic_shapes to "
                       "torch.export.export, with {0: torch.export.Dim.DYNAMIC} for its inputs, and a sample of at "
                       "least 2 there",
                       UsageError);
  CHECK_THROWS_AS(resize({kImage}, 0, 4), UsageError);
}

TEST_CASE("fixed sizes must be those of the sample and dynamic sizes within their bounds") {
  CHECK(refusal({2, 12}) == "");
  CHECK(refusal({1, 64}) == "");  // 2 is what export writes for any size
  CHECK(refusal({0, 12}) == "input 'tokens' is 0 in dimension 0, the export's bounds are 1 and 9223372036854775807");
  CHECK(refusal({2, 65}) == "input 'tokens' is 65 in dimension 1, the export's bounds are 1 and 64");
  CHECK(refusal({2}) == "input 'tokens' has 1 dimensions, the model was exported for 2");
  CHECK_THROWS_WITH_AS(check_shape(kImage, {2, 4, 32}),
                       "input 'image' is 4 in dimension 1, which the export fixed at 3: say dynamic_shapes to "
                       "torch.export.export for others",
                       UsageError);
}

}  // namespace
}  // namespace memtune::model::input_description_test
