// The class of an op decides whether it is recomputed. An op that is wrongly cheap costs the user a matmul per block.
#include "core/plan/facts/operator_class_and_argument_roles.h"

#include <doctest/doctest.h>

#include <initializer_list>

namespace memtune::op_traits_test {

using namespace memtune::plan;

namespace {

OpClass class_of(const char* op) { return traits_of(op).op_class; }

}  // namespace

TEST_CASE("an op that multiplies matrices is not cheap") {
  for (const char* op :
       {"aten::linear", "aten::mv", "aten::cdist", "aten::_grouped_mm", "aten::addmm_", "aten::conv_transpose2d",
        "aten::_convolution", "aten::lstm", "aten::linalg_inv", "aten::_scaled_addmm", "aten::linalg_polar"}) {
    CAPTURE(op);
    CHECK_FALSE(is_cheap(class_of(op)));
  }
  CHECK(is_matmul(class_of("aten::conv_transpose2d")));
  CHECK(is_matmul(class_of("aten::mv")));
  CHECK_FALSE(is_matmul(class_of("aten::lstm")));
}

TEST_CASE("every form of scaled dot product attention is attention") {
  for (const char* op :
       {"aten::scaled_dot_product_attention", "aten::_scaled_dot_product_flash_attention",
        "aten::_scaled_dot_product_flash_attention_for_cpu", "aten::_scaled_dot_product_efficient_attention",
        "aten::_scaled_dot_product_cudnn_attention", "aten::_flash_attention_forward",
        "aten::_efficient_attention_forward", "aten::_flash_attention_forward_no_dropout_inplace",
        "aten::_cudnn_attention_forward_no_dropout_inplace", "higher_order::flex_attention",
        "torch_attn::_varlen_attn"}) {
    CAPTURE(op);
    CHECK(class_of(op) == OpClass::attention);
  }
}

TEST_CASE("an in-place op has the class of its plain form") {
  CHECK(class_of("aten::relu_") == OpClass::elementwise);
  CHECK(class_of("aten::index_put_") == OpClass::scatter);
  CHECK(traits_of("aten::dropout_").random);
  CHECK(class_of("aten::__and__") == OpClass::elementwise);  // two underscores at the end
}

TEST_CASE("only normalization layers have the class norm") {
  for (const char* op : {"aten::layer_norm", "aten::rms_norm", "aten::native_batch_norm"})
    CHECK(class_of(op) == OpClass::norm);
  for (const char* op : {"aten::linalg_vector_norm", "aten::norm", "aten::renorm", "aten::log_normal"})
    CHECK(class_of(op) != OpClass::norm);
}

TEST_CASE("an unknown op has the class unknown whatever its library calls it") {
  CHECK(class_of("mylib::add") == OpClass::unknown);
  CHECK(class_of("aten::no_such_op") == OpClass::unknown);
  CHECK_FALSE(is_cheap(OpClass::unknown));
  CHECK(class_of("_c10d_functional::all_reduce") == OpClass::collective);
  CHECK_FALSE(is_cheap(OpClass::collective));
}

TEST_CASE("every op class is parsed back from its name") {
  for (int i = 0; i <= static_cast<int>(OpClass::host); ++i) {
    const auto op_class = static_cast<OpClass>(i);
    CHECK(parse_op_class(to_string(op_class)) == op_class);
  }
  CHECK(to_string(OpClass::linear_algebra) == "linear_algebra");
  CHECK(to_string(OpClass::host) == "host");
  CHECK(parse_op_class("") == OpClass::unknown);
}

TEST_CASE("traits give the positions of data and weight among the inputs") {
  CHECK(traits_of("aten::linear").weight == 1);
  CHECK(traits_of("aten::embedding").weight == 0);
  CHECK(traits_of("aten::embedding").data == 1);
  CHECK(traits_of("aten::addmm").data == 1);
  CHECK(traits_of("aten::matmul").weight == -1);
  CHECK(traits_of("memtune::linear_cross_entropy").holds_layer);
  CHECK(traits_of("memtune::chunked_log_probs").holds_layer);
  CHECK(traits_of("memtune::chunked_log_probs").weight == 1);
  CHECK(traits_of("memtune::chunked_log_probs").leaves_out_ignored);
  CHECK_FALSE(traits_of("memtune::linear_cross_entropy").leaves_out_ignored);
  CHECK_FALSE(traits_of("aten::linear").holds_layer);
  CHECK(traits_of("aten::conv_transpose1d").transposed);
  CHECK_FALSE(traits_of("aten::conv1d").transposed);
}

}  // namespace memtune::op_traits_test
