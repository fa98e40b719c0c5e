// The error for rejected inputs has LibTorch's message. A hint at another cause is added only if that cause is
// possible.
#include "core/model/frontend/rejection.h"

#include <c10/util/Exception.h>
#include <doctest/doctest.h>

#include <new>

#include "core/model/program/interpreter.h"
namespace memtune::frontend::rejection_test {
namespace {

const char* const kCast = "expected m1 and m2 to have the same dtype, but got: float != c10::BFloat16";

std::string said(const plan::TrainingSettings& training, const std::string& kind, const char* why,
                 const std::vector<std::string>& guessed = {}) {
  TrainingBatch batch;
  batch.specs = {{"x", "float32", {2, 3}, std::nullopt}};
  batch.guessed = guessed;
  return rejection(training, kind, batch, std::runtime_error(why), "aten::linear at linear.py:134").what();
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("the error for a trace in another dtype says in which dtype to record it") {
  plan::TrainingSettings cast, autocast, none;
  cast.dtype = "bfloat16";
  autocast.autocast = "float16";
  const std::string text = said(cast, "traced", kCast);
  CHECK(text.starts_with("the model rejects x:float32[2,3]: " + std::string(kCast)));
  CHECK(holds(text, "(aten::linear at linear.py:134); the trace keeps the dtypes and casts it was recorded with"));
  CHECK(holds(text, "model.to(torch.bfloat16) before torch.jit.trace) and leave --dtype out"));
  CHECK(holds(text, "or train it under --autocast bf16"));
  CHECK(holds(said(autocast, "traced", kCast), "record it under torch.autocast, or in float16"));
  cast.dtype = "float32";
  CHECK_FALSE(holds(said(cast, "traced", kCast), "--autocast"));

  CHECK_FALSE(holds(said(cast, "scripted", kCast), "the trace keeps"));
  CHECK_FALSE(holds(said(none, "traced", kCast), "the trace keeps"));
  CHECK_FALSE(
      holds(said(cast, "traced", "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x4)"), "the trace keeps"));
}

TEST_CASE("the error for a trace with --batch or --seq says that a trace may keep its sizes") {
  const char* const why = "Expected input batch_size (4) to match target batch_size (2).";
  plan::TrainingSettings batch, sequence;
  batch.batch = 4;
  sequence.sequence = 64;
  const std::string hint =
      "; a trace may keep the sizes it was recorded with: record it at this batch and sequence length";
  CHECK(holds(said(batch, "traced", why), hint));
  CHECK(holds(said(sequence, "traced", why), hint));
  CHECK_FALSE(holds(said(batch, "scripted", why), "a trace"));
  CHECK_FALSE(holds(said({}, "traced", why), "a trace"));
}

template <typename Thrown>
void reject(const Thrown& thrown) try {
  throw thrown;
} catch (...) {
  rethrow_as_rejection({}, "scripted", {}, "aten::linear");
}

TEST_CASE("exceptions of the model are rejections but out-of-memory errors stay what they are") {
  CHECK_THROWS_WITH_AS(reject(std::runtime_error("out of range")), "the model rejects : out of range (aten::linear)",
                       UsageError);
  CHECK_THROWS_WITH_AS(reject(program::ModelRaisedError("ValueError: no")), doctest::Contains("the model rejects"),
                       UsageError);
  CHECK_THROWS_AS(reject(std::bad_alloc()), std::bad_alloc);
  CHECK_THROWS_AS(reject(OutOfHostMemoryError("host")), OutOfHostMemoryError);
  CHECK_THROWS_AS(reject(c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, "device")), c10::OutOfMemoryError);
}

TEST_CASE("the error names a guessed input with the flag that describes it but no given input") {
  const std::string shape = "mat1 and mat2 shapes cannot be multiplied (8x3 and 4x4)";
  CHECK(holds(said({}, "scripted", shape.c_str(), {"x:float32[8,3]"}),
              "; x:float32[8,3] is a guess: say what it is with --input 'x:float32[8,3]'"));
  CHECK_FALSE(holds(said({}, "scripted", shape.c_str()), "guess"));
}

}  // namespace
}  // namespace memtune::frontend::rejection_test
