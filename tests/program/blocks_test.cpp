// Checkpointing works by blocks. A strategy loses its savings if a stage counts as a block or an attention as a layer.
#include "core/model/program/blocks.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <functional>

#include "core/base/error.h"
#include "core/model/frontend/loss.h"
#include "core/model/frontend/program_emitter.h"
#include "core/model/program/facts.h"
#include "core/model/program/segments.h"
namespace memtune::program::blocks_test {
namespace {

using frontend::ProgramEmitter;
using frontend::Value;
using Paths = std::vector<std::string>;

// Writes a model whose modules only multiply.
class Writer {
 public:
  explicit Writer(const std::string& type = "Model") {
    program_.regions.push_back({"", type, -1});
    value_ = emit_.input("x");
  }

  Writer& module(const std::string& name, const std::string& type, const std::function<void()>& body) {
    const std::string outer = std::exchange(path_, path_.empty() || name.empty() ? path_ + name : path_ + "." + name);
    const ProgramEmitter::InRegion region(emit_, path_, type);
    body();
    path_ = outer;
    return *this;
  }
  void multiply(int times) {
    for (int i = 0; i < times; ++i) value_ = emit_.op("aten::mm", "", {value_, weight_});
  }
  void unit(const std::string& name, const std::string& type, int times = 2) {
    module(name, type, [&] { multiply(times); });
  }
  // Runs a unit on the current input. add_asides() adds its result later.
  void aside(const std::string& name, const std::string& type, int times) {
    const Value before = value_;
    unit(name, type, times);
    aside_.push_back(value_);
    value_ = before;
  }
  void add_asides() {
    for (const Value value : aside_) value_ = emit_.op("aten::add", "Tensor", {value_, value});
    aside_.clear();
  }

  Program finish() {
    emit_.answer(value_);
    return frontend::with_loss(program_, frontend::LossKind::mse, "target");
  }
  Paths blocks(const std::string& glob = "") {
    const Program program = finish();
    Paths paths;
    for (const int region : find_blocks(program, glob)) paths.push_back(program.regions[region].path);
    return paths;
  }

 private:
  Program program_;
  ProgramEmitter emit_{program_};
  at::Tensor weight_ = at::ones({4, 4});
  Value value_;
  std::vector<Value> aside_;
  std::string path_;
};

void layer(Writer& w, const std::string& name) {
  w.module(name, "Layer", [&] {
    w.unit("self_attn", "Attention", 4);
    w.unit("mlp", "Mlp", 2);
  });
}

TEST_CASE("layers of an encoder and a decoder are blocks and their attentions are not") {
  Writer w;
  for (const char* side : {"encoder", "decoder"})
    w.module(side, "Stack", [&] {
      for (const char* name : {"layers.0", "layers.1"}) layer(w, name);
    });
  CHECK(w.blocks() == Paths{"encoder.layers.0", "encoder.layers.1", "decoder.layers.0", "decoder.layers.1"});
}

// One multiplication with two more ops.
void unit(Writer& w, const std::string& name) {
  w.module(name, "ConvUnit", [&] {
    w.multiply(1);
    for (int i = 0; i < 2; ++i) w.aside("", "ConvUnit", 0);
    w.add_asides();
  });
}

TEST_CASE("the stem of a list of blocks is a block if it has more than one op") {
  Writer w;
  unit(w, "features.0");
  w.unit("features.1", "Bottleneck");
  w.unit("features.2", "Bottleneck");
  w.unit("features.3", "Conv", 1);
  CHECK(w.blocks() == Paths{"features.0", "features.1", "features.2"});
}

TEST_CASE("members of one list are blocks whatever their classes") {
  Writer w;
  w.unit("features.0", "Stem", 1);
  w.unit("features.1", "Bottleneck");
  w.unit("features.2", "Bottleneck");
  w.unit("features.3", "Transformer", 4);
  CHECK(w.blocks() == Paths{"features.1", "features.2", "features.3"});
}

TEST_CASE("the blocks inside stages are taken even if one stage has a single block") {
  Writer w;
  const std::vector<int> depths = {1, 2, 3};
  for (size_t stage = 0; stage < depths.size(); ++stage)
    w.module("stages." + std::to_string(stage), "Stage", [&] {
      w.unit("downsample", "Conv", 1);
      w.module("blocks", "Sequential", [&] {
        for (int i = 0; i < depths[stage]; ++i) w.unit(std::to_string(i), "Block", 3);
      });
    });
  CHECK(w.blocks() == Paths{"stages.0.blocks.0", "stages.1.blocks.0", "stages.1.blocks.1", "stages.2.blocks.0",
                            "stages.2.blocks.1", "stages.2.blocks.2"});
}

TEST_CASE("a layer that is a list of different parts is one block") {
  Writer w;
  for (const char* name : {"block.0", "block.1"})
    w.module(name, "Block", [&] {
      w.unit("layer.0", "SelfAttention", 4);
      w.unit("layer.1", "FeedForward", 2);
    });
  CHECK(w.blocks() == Paths{"block.0", "block.1"});
}

TEST_CASE("parallel experts do not make a layer a stage") {
  Writer w;
  for (const char* name : {"layers.0", "layers.1"})
    w.module(name, "Layer", [&] {
      w.unit("attn", "Attention", 2);
      for (const char* expert : {"experts.0", "experts.1", "experts.2", "experts.3"}) w.aside(expert, "Expert", 3);
      w.add_asides();
    });
  CHECK(w.blocks() == Paths{"layers.0", "layers.1"});
}

TEST_CASE("two attentions do not make a layer a stage but three layers by name do") {
  Writer two, three;
  for (const char* name : {"layers.0", "layers.1"})
    two.module(name, "Layer", [&] {
      for (const char* part : {"attn1", "attn2"}) two.unit(part, "Attention", 4);
    });
  CHECK(two.blocks() == Paths{"layers.0", "layers.1"});
  for (const char* name : {"dense1", "dense2"})
    three.module(name, "Dense", [&] {
      for (const char* part : {"layer1", "layer2", "layer3"}) three.unit(part, "DenseLayer", 2);
    });
  CHECK(three.blocks().size() == 6);
}

TEST_CASE("methods of the root module are not blocks") {
  Writer w("Net");
  for (int method = 0; method < 2; ++method)
    w.module("", "Net", [&] {
      const std::string first = std::to_string(2 * method), second = std::to_string(2 * method + 1);
      w.unit("blocks." + first, "Block");
      w.unit("blocks." + second, "Block");
    });
  CHECK(w.blocks() == Paths{"blocks.0", "blocks.1", "blocks.2", "blocks.3"});
}

TEST_CASE("a module that runs several times is a block each time") {
  Writer w;
  for (int i = 0; i < 3; ++i) w.unit("shared", "Layer");
  CHECK(w.blocks() == Paths{"shared", "shared", "shared"});
}

TEST_CASE("a sequence of single layers is a block if it is a member of a list") {
  Writer w;
  for (const char* name : {"net.0", "net.1"})
    w.module(name, "Sequential", [&] {
      for (const char* part : {"0", "1", "2"}) w.unit(part, "Linear", 1);
    });
  CHECK(w.blocks() == Paths{"net.0", "net.1"});
}

TEST_CASE("single units of more than one op are blocks if nothing larger repeats") {
  Writer units, ops;
  for (const char* name : {"conv.0", "conv.1", "conv.2"}) unit(units, name);
  CHECK(units.blocks() == Paths{"conv.0", "conv.1", "conv.2"});
  for (const char* name : {"conv.0", "conv.1", "conv.2"}) ops.unit(name, "Conv", 1);
  CHECK(ops.blocks().empty());
}

TEST_CASE("named blocks are the outermost matches and a pattern without a match is refused") {
  Writer w;
  for (const char* name : {"layers.0", "layers.1"}) layer(w, name);
  CHECK(w.blocks("layers.*.mlp") == Paths{"layers.0.mlp", "layers.1.mlp"});
  CHECK_THROWS_AS(w.blocks("layer.*"), UsageError);
}

TEST_CASE("a model without repetition is cut into segments of about equal cost with a note") {
  Writer w;
  w.multiply(12);
  const Program program = w.finish();
  plan::ProgramFacts all = facts(program, {});
  for (plan::ProgramOpFacts& op : all.ops) {
    op.output_bytes.assign(op.outputs.size(), 100);
    op.output_saved.assign(op.outputs.size(), true);
  }
  cut_into_segments(program, all);
  REQUIRE(all.blocks.size() == 3);  // of 12 equal ops: two results are kept, four are recomputed at a time
  std::vector<int> sizes(all.blocks.size());
  for (const plan::ProgramOpFacts& op : all.ops)
    if (op.block >= 0) ++sizes[op.block];
  CHECK(sizes == std::vector<int>{4, 4, 4});
  CHECK(all.blocks[1].region == "segment.1");
  CHECK(all.ops.back().after_blocks);
  CHECK(all.ops.back().block == -1);
  REQUIRE(all.notes.size() == 1);
  CHECK(all.notes[0].find("3 segments") != std::string::npos);
}

TEST_CASE("facts that have blocks are not cut and a single op is one segment") {
  Writer layers, one;
  for (const char* name : {"layers.0", "layers.1"}) layer(layers, name);
  const Program program = layers.finish();
  plan::ProgramFacts known = facts(program, find_blocks(program, ""));
  cut_into_segments(program, known);
  CHECK(known.blocks.size() == 2);
  CHECK(known.notes.empty());
  one.multiply(1);
  const Program single = one.finish();
  plan::ProgramFacts small = facts(single, {});
  cut_into_segments(single, small);
  CHECK(small.blocks.size() == 1);
}

}  // namespace
}  // namespace memtune::program::blocks_test
