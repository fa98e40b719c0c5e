#include "core/plan/facts/program_facts.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/json_object_reader.h"

namespace memtune::plan {
namespace {

using nlohmann::json;

constexpr const char* kTooMuch = ": all ops together have more than 1 PiB";

// Large programs have ten thousand ops, so fields with default values are left out.
json op_json(const ProgramOpFacts& op) {
  json out = {{"name", op.name}, {"region", op.region}, {"inputs", op.inputs}, {"outputs", op.outputs}};
  if (op.block >= 0) out["block"] = op.block;
  if (op.after_blocks) out["after_blocks"] = true;
  if (op.view) out["view"] = true;
  if (op.in_place) out["in_place"] = true;
  if (op.random) out["random"] = true;
  if (op.op_class != OpClass::unknown) out["class"] = to_string(op.op_class);
  if (!op.source.empty()) out["source"] = op.source;
  if (!op.output_bytes.empty()) out["output_bytes"] = op.output_bytes;
  if (!op.output_saved.empty()) out["output_saved"] = op.output_saved;
  if (op.private_bytes > 0) out["private_bytes"] = op.private_bytes;
  if (op.flops > 0) out["flops"] = op.flops;
  if (!op.dtype.empty()) out["dtype"] = op.dtype;
  return out;
}

void check_count(const std::string& path, size_t count, const ProgramOpFacts& op) {
  if (count != 0 && count != op.outputs.size())
    throw UsageError(path + " must have one entry an output, " + std::to_string(op.outputs.size()) + ", not " +
                     std::to_string(count));
}

void read_measured(JsonObjectReader& object, ProgramOpFacts& op, OverflowCheckedSum& made) {
  object.read("output_bytes", op.output_bytes, 0);
  object.read("output_saved", op.output_saved);
  object.read("private_bytes", op.private_bytes, 0);
  if (!made.add(op.private_bytes)) throw UsageError(object.path("private_bytes") + kTooMuch);
  for (const int64_t bytes : op.output_bytes)
    if (!made.add(bytes)) throw UsageError(object.path("output_bytes") + kTooMuch);
  object.read("flops", op.flops);
  object.read("dtype", op.dtype);
  check_count(object.path("output_bytes"), op.output_bytes.size(), op);
  check_count(object.path("output_saved"), op.output_saved.size(), op);
}

ProgramOpFacts read_op(const json& json, const std::string& path, const ProgramFacts& facts, OverflowCheckedSum& made) {
  ProgramOpFacts op;
  const int last_value = static_cast<int>(facts.owner.size()) - 1;
  JsonObjectReader object(json, path);
  object.require({"name"});
  object.read("name", op.name);
  object.read("region", op.region);
  object.read("block", op.block, -1, static_cast<int>(facts.blocks.size()) - 1);
  object.read("after_blocks", op.after_blocks);
  object.read("inputs", op.inputs, 0, last_value);
  object.read("outputs", op.outputs, 0, last_value);
  object.read("view", op.view);
  object.read("in_place", op.in_place);
  object.read("random", op.random);
  std::string op_class;
  object.read("class", op_class);
  op.op_class = parse_op_class(op_class);
  object.read("source", op.source);
  read_measured(object, op, made);
  return op;
}

BlockModulePath read_block(const json& json, const std::string& path) {
  BlockModulePath block;
  JsonObjectReader object(json, path);
  object.require({"region"});
  object.read("region", block.region);
  return block;
}

}  // namespace

std::string full_name(const ProgramOpFacts& op) { return op.region.empty() ? op.name : op.region + "/" + op.name; }

int64_t saved_bytes(const ProgramOpFacts& op) {
  int64_t bytes = op.private_bytes;
  for (size_t i = 0; i < std::min(op.output_bytes.size(), op.output_saved.size()); ++i)
    if (op.output_saved[i]) bytes += op.output_bytes[i];
  return bytes;
}

void to_json(json& out, const ProgramFacts& facts) {
  json ops = json::array();
  json blocks = json::array();
  for (const ProgramOpFacts& op : facts.ops) ops.push_back(op_json(op));
  for (const BlockModulePath& block : facts.blocks) blocks.push_back({{"region", block.region}});
  out = {{"kind", facts.kind},
         {"ops", ops},
         {"blocks", blocks},
         {"parameters", facts.parameters},
         {"parameter_bytes", facts.parameter_bytes},
         {"trained_bytes", facts.trained_bytes},
         {"trained_embeddings", facts.trained_embeddings},
         {"notes", facts.notes},
         {"owner", facts.owner}};
}

// Unknown fields are ignored: a later version may have written the file. All numbers are checked as indices, so that
// strategies can use them without checks of their own.
void from_json(const json& json, ProgramFacts& facts) {
  facts = {};
  JsonObjectReader object(json, "facts");
  object.require({"kind", "ops", "blocks", "owner"});
  object.read("kind", facts.kind);
  object.read("owner", facts.owner, -1, static_cast<int>(object.array("ops").size()) - 1);
  for (const auto& block : object.array("blocks"))
    facts.blocks.push_back(read_block(block, object.path("blocks", facts.blocks.size())));
  OverflowCheckedSum made;
  for (const auto& op : object.array("ops"))
    facts.ops.push_back(read_op(op, object.path("ops", facts.ops.size()), facts, made));
  object.read("parameters", facts.parameters, 0, kMaxBytes);
  object.read("parameter_bytes", facts.parameter_bytes, 0, kMaxBytes);
  facts.trained_bytes = facts.parameter_bytes;  // default for files written before adapters were supported
  object.read("trained_bytes", facts.trained_bytes, 0, facts.parameter_bytes);
  object.read("trained_embeddings", facts.trained_embeddings, 0, kMaxBytes);
  object.read("notes", facts.notes);
}

}  // namespace memtune::plan
