// Users type input specs. Every form is read and printed in the same form, and an error names the wrong part.
#include <doctest/doctest.h>

#include "core/base/error.h"
#include "core/plan/request/trial_request.h"

namespace memtune::input_test {

using namespace memtune;
using namespace memtune::plan;

namespace {

const std::string kForm =
    "; the form is name:dtype[sizes]<bound, as in tokens:int64[4,4096]<32000 or "
    "image:float32[8,3,224,224]";

void check_refused(const std::string& text, const std::string& why) {
  CAPTURE(text);
  CHECK_THROWS_WITH_AS(parse_input_spec(text), ("input '" + text + "': " + why + kForm).c_str(), UsageError);
}

}  // namespace

TEST_CASE("an input spec has a name, a dtype, sizes and a bound") {
  const InputSpec spec = parse_input_spec("tokens:int64[4,4096]<32000");
  CHECK(spec.name == "tokens");
  CHECK(spec.dtype == "int64");
  CHECK(spec.shape == std::vector<int64_t>{4, 4096});
  CHECK(spec.below == 32000);
}

TEST_CASE("an input spec may lack the name and the bound and all sizes") {
  const InputSpec spec = parse_input_spec(":float32[]");
  CHECK(spec.name == "");
  CHECK(spec.shape.empty());
  CHECK_FALSE(spec.below.has_value());
}

TEST_CASE("an input spec is printed in the form in which it is read") {
  for (const std::string text : {"tokens:int64[4,4096]<32000", ":float32[8,3,224,224]", "mask:bool[7]", "x:bfloat16[]"})
    CHECK(to_string(parse_input_spec(text)) == text);
  CHECK(to_string(parse_input_spec(" x : fp16 [ 2 , 3 ] ")) == "x:float16[2,3]");
  CHECK(to_string(parse_input_spec("input.1:int8[2]<128")) == "input.1:int8[2]<128");
}

TEST_CASE("an error in an input spec names the wrong part") {
  check_refused("", "there is no [sizes]");
  check_refused("tokens:int64", "there is no [sizes]");
  check_refused("tokens:int64[4", "there is no [sizes]");
  check_refused("int64[4]", "there is no ':' before the dtype");
  check_refused("x:float32[4,0]", "size '0' is not a whole number of at least 1");
  check_refused("x:float32[4,x]", "size 'x' is not a whole number of at least 1");
  check_refused("x:float32[4,]", "size '' is not a whole number of at least 1");
  check_refused("x:float32[-1]", "size '-1' is not a whole number of at least 1");
  check_refused("x:int8[9999999999,9999999999]", "that is too many elements");
  check_refused("x:int64[2]9", "'9' behind the sizes is not a bound");
  check_refused("x:int64[2]<0", "bound '0' is not a whole number of at least 1");
  check_refused("x:float32[2]<9", "a bound is for integers, not for float32");
  check_refused("x:bool[2]<2", "a bound is for integers, not for bool");
  check_refused("x:uint8[2]<257", "bound 257 is more than uint8 can hold");
}

TEST_CASE("a wrong dtype in an input spec is refused with the nearest and the known ones") {
  CHECK_THROWS_WITH_AS(
      parse_input_spec("x:flaot32[2]"),
      "input 'x:flaot32[2]': unknown dtype 'flaot32'; did you mean 'float32'? Known: float32, float64, "
      "float16, bfloat16, int64, int32, int16, int8, uint8, bool",
      UsageError);
}

TEST_CASE("each dtype has one canonical name") {
  CHECK(canonical_dtype("fp32") == "float32");
  CHECK(canonical_dtype("float") == "float32");
  CHECK(canonical_dtype("bf16") == "bfloat16");
  CHECK(canonical_dtype("fp16") == "float16");
  CHECK(canonical_dtype("half") == "float16");
  CHECK(canonical_dtype("long") == "int64");
  CHECK(canonical_dtype("int") == "int32");
  CHECK(canonical_dtype("bool") == "bool");
  CHECK_THROWS_AS(canonical_dtype(""), UsageError);
}

}  // namespace memtune::input_test
