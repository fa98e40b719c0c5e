#include "core/answer/trainer/trainer_batch_and_save_keys.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/answer/result/effect.h"
#include "core/answer/trainer/export_comments.h"
#include "core/answer/trainer/recommended_state_save_schedule.h"
#include "core/answer/trainer/rendered_config.h"
#include "core/answer/trainer/strategy_config_translator.h"
#include "core/answer/trainer/trainers.h"
#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/text.h"

namespace memtune::trainer {
namespace {

using report::Report;
using result::TrialMeasurement;
using result::TrialResultRow;

// Exports any trial of a run to one trainer.
class Exporter {
 public:
  Exporter(const std::string& name, const Report& report, const ConfigExportReleasesAndUserConfig& settings)
      : name_(name),
        trainer_(find_trainer(name)),
        known_(known_trainer(name, settings.releases)),
        own_(known_.profile, settings.text, settings.name, {}, known_.releases,
             EditableUserTrainerSettings::Absent::allowed),
        dialect_(known_.profile, own_, known_.releases, report.blocks),
        report_(report) {
    own_.check_kinds();
  }

  ExportedConfig write(const TrialResultRow& asked) {
    check(asked);
    const TrialResultRow* row = nullptr;
    try {
      row = &written(asked);
    } catch (const UsageError& error) {
      const std::optional<TrainingStateSaveChoice> chosen = choose_saving(trainer_, asked, report_);
      if (!chosen || !chosen->saving) throw;
      return write_saving(asked, *chosen, error.what());
    }
    ConfigChanges config = keys_of(*row);
    put_axes(*row, config);
    put_sharding(*row, config);
    ExportComments comments;
    const std::string written_as = effective_strategy(row->measurement);
    comments.put("", "memtune " + report_.version + ": " + written_as + in_keys());
    put_instead(asked, *row, comments);
    comments.put_circumstances(report_);
    comments.put("measured:  ", measured_text(*row, report_));
    comments.put("with:      ", environment_text(*row));
    comments.put("basis:     ", "memtune's own figures of " + written_as + " with the loss and optimizer above; " +
                                    name_ + "'s own loss, optimizer and data give other figures" +
                                    (known_.profile.loss.empty() ? "" : " (" + known_.profile.loss + ")"));
    if (report_.budget_bytes > 0) comments.put("budget:    ", format_bytes(report_.budget_bytes));
    comments.put("gradients: ",
                 row->measurement.strategy == report_.reference ? "the reference" : gradients_text(row->measurement));
    if (const auto chosen = choose_saving(trainer_, *row, report_)) put_saving(*chosen, config, comments);
    ExportedConfig result = end(config, comments);
    result.row = row;
    return result;
  }

 private:
  std::string in_keys() const { return " in keys of " + name_ + " " + known_.releases.at(known_.package); }

  std::optional<StrategyConfigChangesAndNotes> exact(const TrialResultRow& row, std::string& why) const {
    const std::optional<plan::Strategy> strategy = plan::Strategy::of_name(effective_strategy(row.measurement));
    return strategy ? dialect_.keys_of(*strategy, why) : std::nullopt;
  }
  bool is_exact(const TrialResultRow& row) const {
    std::string why;
    return exact(row, why).has_value();
  }

  ConfigChanges keys_of(const TrialResultRow& row) const {
    std::string why;
    const StrategyConfigChangesAndNotes keys = *exact(row, why);
    ConfigChanges config{keys.changes, keys.notes};
    const std::string& known = read_release();
    if (known_.releases.at(known_.package) != known)
      config.notes.push_back("these keys were looked up in " + known_.package + " " + known);
    return config;
  }
  const std::string& read_release() const { return known_.profile.releases.at(known_.package); }

  // The rows that the trainer has exact keys for, at the batch and sequence of `row`.
  std::vector<const TrialResultRow*> expressible(const TrialResultRow& row) const {
    std::vector<const TrialResultRow*> rows;
    for (const TrialResultRow* other : result::choices(report_.rows))
      if (same_axes(*other, row) && is_exact(*other)) rows.push_back(other);
    return rows;
  }

  // Why the strategy has no keys: the config or release that excludes it, else "torchtune has no keys for it".
  std::string why_not(const TrialResultRow& row) const {
    std::string why;
    exact(row, why);
    return why.empty() ? name_ + " has no keys for it" : why;
  }

  [[noreturn]] void refuse(const TrialResultRow& row, const std::vector<const TrialResultRow*>& rows) const {
    const std::string text =
        "'" + row.measurement.strategy + "' is not possible in " + name_ + ", and of the strategies that are, ";
    if (rows.empty())
      throw UsageError(text + "none was measured: memtune sweep --strategy 'none;checkpoint:full;checkpoint:every=2;" +
                       "checkpoint:full,inputs=host' does, into the same folder with the same --model");
    const TrialResultRow& least =
        **std::ranges::min_element(rows, {}, [](const TrialResultRow* row) { return required_bytes(*row); });
    throw UsageError(text + "none fits the budget of " + format_bytes(report_.budget_bytes) + "; the smallest is " +
                     least.measurement.strategy + " with " + format_bytes(required_bytes(least)));
  }

  // The best exportable row within the budget, or, without a budget, within the peak of `row`. If none is, the smallest
  // peak.
  const TrialResultRow& instead_of(const TrialResultRow& row) const {
    const std::vector<const TrialResultRow*> rows = expressible(row);
    std::vector<const TrialResultRow*> fitting;
    const int64_t most = report_.budget_bytes > 0 ? report_.budget_bytes : required_bytes(row);
    std::ranges::copy_if(rows, std::back_inserter(fitting),
                         [&](const TrialResultRow* other) { return required_bytes(*other) <= most; });
    const result::WorkNormalizedTrialComparator ranking{std::span<const TrialResultRow>(report_.rows)};
    if (!fitting.empty()) return result::choose(fitting, ranking, report_.goal);
    if (rows.empty() || report_.budget_bytes > 0) refuse(row, rows);
    return result::choose(rows, ranking, result::RecommendationGoal::memory);
  }

  static void check(const TrialResultRow& row) {
    const TrialMeasurement& m = row.measurement;
    if (m.outcome == result::TrialOutcome::ok) return;
    throw UsageError("'" + m.strategy + "' did not work here (" + to_string(m.outcome) +
                     "): export a strategy that did");
  }

  // The row that measured `strategy` itself, or nullptr.
  const TrialResultRow* measured_as(const std::string& strategy, const TrialResultRow& row) const {
    const auto found = std::ranges::find_if(report_.rows, [&](const TrialResultRow& other) {
      return worked(other) && other.measurement.strategy == strategy && same_axes(other, row);
    });
    return found == report_.rows.end() ? nullptr : &*found;
  }

  // The row whose keys are written.
  const TrialResultRow& written(const TrialResultRow& row) const {
    check(row);
    if (const TrialResultRow* same = measured_as(effective_strategy(row.measurement), row);
        same && has_ineffective_part(row.measurement))
      return written(*same);
    if (!is_exact(row)) return instead_of(row);
    if (report_.budget_bytes <= 0 || required_bytes(row) <= report_.budget_bytes) return row;
    throw UsageError("'" + row.measurement.strategy + "' needs " + format_bytes(required_bytes(row)) +
                     ", more than the sweep's budget of " + format_bytes(report_.budget_bytes) +
                     "; without --strategy the best that fits it is written");
  }

  // Comments why another row is written than the one asked for, and the cost of that.
  void put_instead(const TrialResultRow& asked, const TrialResultRow& row, ExportComments& comments) {
    const TrialMeasurement& m = asked.measurement;
    if (&asked == &row && !has_ineffective_part(m)) return;
    const std::string strategy = effective_strategy(row.measurement),
                      budget = report_.budget_bytes > 0 ? " within " + format_bytes(report_.budget_bytes) : "";
    comments.put("asked for: ", m.strategy + ", " + measured_text(asked, report_));
    if (has_ineffective_part(m)) {
      comments.put("but:       ", "it is " + effect_text(m));
      said_.push_back(m.strategy + ": " + effect_text(m));
      if (effective_strategy(m) == strategy) return;
    }
    const bool more = budget.empty() && required_bytes(row) > required_bytes(asked);
    const std::string but = why_not(asked) + "; writing " + strategy + " instead, " +
                            (more ? "the smallest" : "the best" + budget) + " of the measured strategies that " +
                            name_ + " can do" + (more ? ", though it needs more memory" : "");
    const std::string costs = "against " + m.strategy + " " + difference_text(asked, row);
    comments.put("but:       ", but);
    comments.put("costs:     ", costs);
    said_.push_back(m.strategy + ": " + but);
    said_.push_back(costs);
  }

  void put_axes(const TrialResultRow& row, ConfigChanges& config) const {
    const auto put = [&](std::string_view key, int64_t value) {
      config.changes[std::string(key)] = std::to_string(value);
    };
    if (row.batch && !trainer_.batch_key.empty()) put(trainer_.batch_key, *row.batch);
    if (!trainer_.accumulate_key.empty() && (row.passes > 1 || report_.global_batch > 0))
      put(trainer_.accumulate_key, row.passes);
    if (row.sequence && !trainer_.sequence_key.empty()) put(trainer_.sequence_key, *row.sequence);
    if (row.sequence && trainer_.sequence_key.empty())
      config.notes.push_back("measured with sequences of " + std::to_string(*row.sequence) + ": " +
                             std::string(trainer_.sequence_note));
  }

  static void put(const ShardingModeConfigValues& sharding, ConfigChanges& config) {
    for (const auto& [key, value] : sharding.set) config.changes[key] = value;
    config.notes.insert(config.notes.end(), sharding.notes.begin(), sharding.notes.end());
  }

  // For several ranks: keys for when parameters are freed and where shards are stored.
  void put_sharding(const TrialResultRow& row, ConfigChanges& config) const {
    if (report_.reshard.empty()) return;
    config.notes.push_back("measured on " + std::to_string(row.measurement.ranks.size()) +
                           " ranks, parameters sharded with --reshard " + report_.reshard + report_.shard_flags);
    const auto& known = known_.profile.sharding;
    const auto put_known = [&](const std::string& word, const std::string& flag) {
      if (const auto found = known.find(word); found != known.end())
        put(found->second, config);
      else if (!flag.empty())
        config.notes.push_back("memtune knows no key of " + name_ + " for " + flag);
    };
    put_known(report_.reshard, "--reshard " + report_.reshard);
    put_known(report_.shards_on_host ? "on-host" : "on-device", report_.shards_on_host ? "--shard-offload" : "");
  }

  // Appends the keys and notes of saving.
  void put_saving(const TrainingStateSaveChoice& chosen, ConfigChanges& config, ExportComments& comments) const {
    comments.put("saving:    ", chosen.text);
    config.notes.insert(config.notes.end(), chosen.notes.begin(), chosen.notes.end());
    if (chosen.saving) trainer_.save(*chosen.saving, config);
  }

  ExportedConfig write_saving(const TrialResultRow& row, const TrainingStateSaveChoice& chosen,
                              const std::string& why) {
    ConfigChanges config;
    ExportComments comments;
    comments.put("", "memtune " + report_.version + ": saving" + in_keys() + ", with steps as under " +
                         row.measurement.strategy + ", which is not written");
    comments.put("but:       ", why);
    said_.push_back(why);
    comments.put_circumstances(report_);
    comments.put("measured:  ", measured_text(row, report_));
    put_saving(chosen, config, comments);
    return end(config, comments);
  }

  ExportedConfig end(const ConfigChanges& config, ExportComments& comments) {
    for (const std::string& note : config.notes) comments.put("note:      ", note);
    const RenderedConfig written = render_config(known_, own_, config.changes, comments.lines());
    if (!written.takes_comments) said_ = comments.lines();
    return {written.text, said_, changed_by(config.changes), !known_.profile.forms.empty()};
  }

  std::vector<ConfigKeyValueChange> changed_by(const Changes& changes) const {
    std::vector<ConfigKeyValueChange> changed;
    if (!own_.has_config()) return changed;
    for (const auto& [key, value] : changes) {
      const nlohmann::json before = own_.value(key), after = own_.value(key, changes);
      if (before != after) changed.push_back({join(own_.path_of(key), "."), print_json(before), print_json(after)});
    }
    return changed;
  }

  const std::string name_;
  const TrainerBatchAndSaveKeys& trainer_;
  const TrainerProfileAndPackageVersions known_;
  const EditableUserTrainerSettings own_;
  const StrategyConfigTranslator dialect_;
  const Report& report_;
  std::vector<std::string> said_;
};

// Uses "\r\n" if all lines of the user's config end with it.
std::string with_line_ends_of(const std::string& own, const std::string& text) {
  bool all = own.find('\n') != std::string::npos;
  for (size_t at = own.find('\n'); at != std::string::npos; at = own.find('\n', at + 1))
    all = all && at > 0 && own[at - 1] == '\r';
  if (!all) return text;
  std::string written;
  for (const char letter : text) {
    if (letter == '\n' && !written.ends_with('\r')) written += '\r';
    written += letter;
  }
  return written;
}

}  // namespace

ExportedConfig export_config(const std::string& trainer, const TrialResultRow& row, const Report& report,
                             const ConfigExportReleasesAndUserConfig& settings) {
  ExportedConfig result = Exporter(trainer, report, settings).write(row);
  result.text = with_line_ends_of(settings.text, result.text);
  return result;
}

}  // namespace memtune::trainer
