#include "core/plan/op_class.h"

#include <set>

namespace memtune::plan {
namespace {

// Dear, or not sure to make the same again (the order of equal elements), though no flag of OpFacts says so.
const std::set<std::string> kNotCheap = {"embedding", "embedding_bag", "lstm", "gru",         "rnn_tanh",  "rnn_relu",
                                         "sort",      "argsort",       "topk", "scatter_add", "index_add", "index_put"};

}  // namespace

bool makes_values(const config::OpFacts& op) { return !op.name.starts_with("prim::") && !op.outputs.empty(); }
bool makes_memory(const config::OpFacts& op) { return makes_values(op) && !op.view && !op.in_place; }

bool is_cheap(const config::OpFacts& op) {
  const std::string name = bare(op.name);
  const bool dear = op.matmul || op.attention || op.flops > 0 || op.random;
  return makes_values(op) && !dear && !kNotCheap.count(op.in_place ? name.substr(0, name.rfind('_')) : name);
}

bool is_norm(const config::OpFacts& op) { return op.name.find("norm") != std::string::npos; }

std::string bare(const std::string& name) { return name.starts_with("aten::") ? name.substr(6) : name; }

}  // namespace memtune::plan
