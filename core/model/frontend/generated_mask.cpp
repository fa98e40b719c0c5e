#include "core/model/frontend/generated_mask.h"

#include <algorithm>
#include <unordered_set>

namespace memtune::frontend {
namespace {

using program::InterpreterInstructionKind;
using program::Op;
using program::ProgramOrControlFlowBody;
using program::Slot;

constexpr size_t kMask = 3;  // argument of scaled_dot_product_attention

// Follows the content of inputs and weights through the program. Shapes and tensors made from shapes have no content.
class Content {
 public:
  explicit Content(const program::Program& program) : program_(program) {
    for (const Slot input : program.body.inputs) content_.insert(input);
    for (size_t slot = 0; slot < program.constants.size(); ++slot)
      if (program.is_constant[slot] && is_weight(program.constants[slot])) content_.insert(static_cast<Slot>(slot));
    visit(program.body);
  }

  int masks() const { return masks_; }
  const std::string& source() const { return source_; }

 private:
  static bool is_weight(const c10::IValue& value) {
    return value.isTensor() && value.toTensor().defined() && value.toTensor().dim() > 0;
  }
  bool has_content(Slot slot) const { return content_.count(slot) > 0; }

  void visit(const ProgramOrControlFlowBody& body) {
    for (const Op& op : body.ops) {
      look(op);
      for (const ProgramOrControlFlowBody& inner : op.bodies) visit(inner);
      const bool reads =
          std::any_of(op.inputs.begin(), op.inputs.end(), [this](Slot slot) { return has_content(slot); });
      const bool inner = std::any_of(op.bodies.begin(), op.bodies.end(), [this](const ProgramOrControlFlowBody& part) {
        return std::any_of(part.outputs.begin(), part.outputs.end(), [this](Slot slot) { return has_content(slot); });
      });
      if ((reads && !shape_alone(op)) || inner || op.random || op.kind == InterpreterInstructionKind::get_attribute)
        add(op);
    }
  }

  static bool shape_alone(const Op& op) {
    return op.op_class == plan::OpClass::host || op.name.ends_with("_like") || op.name.starts_with("aten::new_");
  }

  void add(const Op& op) {
    content_.insert(op.outputs.begin(), op.outputs.end());
    for (size_t i = 0; i < op.inputs.size() && i < op.writes.size(); ++i)
      if (op.writes[i]) content_.insert(op.inputs[i]);
  }

  void look(const Op& op) {
    if (op.name != "aten::scaled_dot_product_attention" || op.inputs.size() <= kMask) return;
    const Slot mask = op.inputs[kMask];
    if (program_.is_constant[mask] || has_content(mask)) return;
    if (masks_++ == 0) source_ = op.source;
  }

  const program::Program& program_;
  std::unordered_set<Slot> content_;
  int masks_ = 0;
  std::string source_;
};

}  // namespace

std::string note_on_generated_mask(const program::Program& program) {
  const Content content(program);
  if (content.masks() == 0) return "";
  return std::to_string(content.masks()) + " attentions" +
         (content.source().empty() ? "" : " (" + content.source() + ")") +
         " take a mask that does not depend on the inputs: a Hugging Face model writes its causal mask out while it is "
         "recorded, and its training does not, which is faster and smaller. memtune convert records the model as it "
         "trains";
}

}  // namespace memtune::frontend
