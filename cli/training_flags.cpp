#include "cli/training_flags.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "cli/flags.h"
#include "cli/offer.h"
#include "cli/option_groups.h"
#include "core/base/error.h"
#include "core/base/loss_implementation.h"
#include "core/base/text.h"
#include "core/base/vocabulary.h"
#include "core/model/adapter/lora_config.h"

namespace memtune::cli {
namespace {

constexpr int64_t kMaxPasses = 1'000'000;

double parse_learning_rate(const std::string& text) {
  const double rate = parse_number(text, "--lr");
  if (!(rate >= 0)) throw UsageError("--lr: " + text + " is negative; a learning rate is 0 or more");
  return rate;
}

double parse_norm(const std::string& text) {
  const double norm = parse_number(text, "--max-grad-norm");
  if (!(norm >= 0)) throw UsageError("--max-grad-norm: " + text + " is negative; 0 clips nothing");
  return norm;
}

std::string read_loss(const std::string& loss) try {
  return choice_flag("--loss", loss, kLosses);
} catch (const UsageError& error) {
  throw UsageError(std::string(error.what()) +
                   ". Others are measured by the training command: memtune sweep -- COMMAND");
}

}  // namespace

void TrainingFlags::add_to(CLI::App& command) {
  offer(
      command.add_option("--loss", loss,
                         "next_token, causal_lm, cross_entropy, mse, returned (by the model), dpo, kto, grpo, reward, "
                         "embedding"),
      kLosses)
      ->type_name("NAME");
  offer(command.add_option(
            "--loss-impl", loss_impl,
            "plain, chunked=N (logits recomputed in N parts) or fused (their gradient computed in forward)"),
        {"plain", "chunked=8", "fused"})
      ->type_name("HOW");
  command.add_option("--output", output, "output that the loss takes: 'logits', '1' (default: the usual one)")
      ->type_name("NAME|INDEX");
  command.add_option("--target", target, "input that is the target (default: labels or target)")->type_name("NAME");
  offer(command.add_option("--optimizer", optimizer, join(kOptimizers, ", ") + " (default: adamw)"), kOptimizers)
      ->type_name("NAME");
  command.add_flag("--optimizer-in-backward", optimizer_in_backward,
                   "update each parameter in backward, and free its gradient");
  command.add_option("--accumulate", accumulate, "gradient accumulation steps (default: 1)")->type_name("N");
  command.add_option("--max-grad-norm", max_grad_norm, "clip gradients to this total norm (default: 0, no clipping)")
      ->type_name("NUMBER");
  command.add_option("--lr", learning_rate, "learning rate (default: 1e-4)")->type_name("NUMBER");
  offer(command.add_option("--dtype", dtype, "cast parameters to bf16, fp16 or fp32"), {"bf16", "fp16", "fp32"})
      ->type_name("DTYPE");
  offer(command.add_option("--autocast", autocast, "run forward under autocast to bf16 or fp16"), {"bf16", "fp16"})
      ->type_name("DTYPE");
  command
      .add_option("--lora", lora,
                  "train an adapter: r=16,alpha=32,dropout=0.05,targets=q_proj+v_proj,rslora, or peft's "
                  "adapter_config.json (default targets: all-linear)")
      ->type_name("SPEC|FILE");
  offer(command.add_option(
            "--load-in", load_in,
            "quantize frozen linear weights as bitsandbytes: 4bit (NF4, double quantization), 4bit-single or 8bit "
            "(LLM.int8())"),
        kQuantizations)
      ->type_name("NAME");
  command.add_option("--seed", seed, "for synthetic inputs and dropout (default: 0)")->type_name("N");
  put_under(kModelOptions, command, {"--loss", "--loss-impl", "--output", "--target"});
  put_under(kTraining, command,
            {"--optimizer", "--optimizer-in-backward", "--accumulate", "--max-grad-norm", "--lr", "--dtype",
             "--autocast", "--lora", "--load-in", "--seed"});
}

void TrainingFlags::read(plan::TrainingSettings& to) const {
  if (!loss.empty()) to.loss = read_loss(loss);
  parse_loss_implementation(to.loss_impl = loss_impl);
  to.output = output;
  to.target = target;
  to.optimizer = choice_flag("--optimizer", optimizer, kOptimizers);
  to.optimizer_in_backward = optimizer_in_backward;
  to.max_grad_norm = parse_norm(max_grad_norm);
  to.accumulate = static_cast<int>(integer_flag("--accumulate", accumulate, 1, kMaxPasses));
  to.learning_rate = parse_learning_rate(learning_rate);
  if (!dtype.empty()) to.dtype = dtype_flag("--dtype", dtype, kParameterDtypes);
  if (!autocast.empty()) to.autocast = dtype_flag("--autocast", autocast, kAutocastDtypes);
  if (!lora.empty()) {
    model::parse_lora(lora);
    to.lora = model::canonical_lora(lora);
    check_utf8("--lora", to.lora);
  }
  if (!load_in.empty()) to.load_in = choice_flag("--load-in", load_in, kQuantizations);
  to.seed = integer_flag("--seed", seed, 0, std::numeric_limits<int64_t>::max());
}

}  // namespace memtune::cli
