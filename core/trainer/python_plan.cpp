#include "core/trainer/python_plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/layout.h"
#include "core/base/text.h"
#include "core/trainer/comments.h"
#include "core/trainer/treatment.h"

namespace memtune::trainer {
namespace {

constexpr std::string_view kBegin = "# --- data: ", kEnd = "# --- end of data ";
constexpr std::string_view kData = "PLAN: dict[str, Any] = {\n";
constexpr std::string_view kInclude = "# [include ";
constexpr size_t kColumns = 118;

std::string literal(const std::string& text) { return nlohmann::json(text).dump(); }  // Python reads it the same

std::string to_text(FunctionPlaces places) { return to_string(places.result) + " " + to_string(places.own); }

// As many a line as fit.
std::string numbers(const std::vector<int>& list, size_t indent) {
  std::string text = "[";
  size_t line = indent;
  for (const int number : list) {
    const std::string word = (text.size() == 1 ? "" : ", ") + std::to_string(number);
    line += word.size();
    const bool breaks = line > kColumns;
    text += breaks ? ",\n" + std::string(indent, ' ') + std::to_string(number) : word;
    if (breaks) line = indent + word.size();
  }
  return text + "]";
}

// Names in as few string literals as fit, one a line.
void put_names(const std::vector<std::string>& names, const std::string& indent, std::string& text) {
  std::string line;
  for (const std::string& name : names) {
    if (!line.empty() && indent.size() + line.size() + name.size() + 4 > kColumns) {
      text += indent + literal(line + " ") + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + name;
  }
  text += indent + literal(line);
}

void put_treatment(const Treatment& treatment, std::string& text) {
  const std::string head = "        {\"blocks\": ";
  text += head + numbers(treatment.blocks, head.size() + 1) + ",\n";
  text += "         \"others\": " + literal(to_text(treatment.others)) + ", \"ops\": {\n";
  std::map<FunctionPlaces, std::vector<std::string>> groups;
  for (const auto& [name, places] : treatment.functions) groups[places].push_back(name);
  for (const auto& [places, names] : groups) {
    text += "             " + literal(to_text(places)) + ":\n";
    put_names(names, "                 ", text);
    text += ",\n";
  }
  text += "         }},\n";
}

// "model.layers" of "model.layers.3".
std::string list_path(const std::string& block) { return block.substr(0, block.rfind('.')); }

// What can leave while the compiled forward of the blocks runs, three tenths shorter than a third of the step with
// everything kept; where no trial tells, what the plan moves.
int64_t hidden_bytes(const TreatedProgram& treated, const result::Row& row, const report::Report& report) {
  double link_bytes_per_ms = 0, forward_ms = 0;
  for (const result::Row& other : report.rows) {
    if (!result::worked(other) || !result::same_axes(other, row)) continue;
    link_bytes_per_ms = std::max(link_bytes_per_ms, other.measurement.transfer.link_out_gb_per_s * 1e6);
    if (!result::is_base(other)) continue;
    const double passes_ms = other.measurement.step_ms.median - other.measurement.optimizer_ms;
    forward_ms = 0.7 * passes_ms / 3 / static_cast<double>(std::max<int64_t>(other.passes, 1));
  }
  const auto bytes = static_cast<int64_t>(link_bytes_per_ms * forward_ms);
  return bytes > 0 ? bytes : treated.moved_bytes;
}

// Words of the template's marks that hold for a file.
using Words = std::set<std::string_view>;

const std::vector<Words>& kinds() {
  static const std::vector<Words> all = {{"eager", "moves"}, {"eager", "stays"}, {"compiled", "moves"}};
  return all;
}

bool moves(const FunctionPlaces& places) {
  return places.result == config::Place::host || places.own == config::Place::host;
}

bool moves(const Treatment& treatment) {
  return moves(treatment.others) || std::any_of(treatment.functions.begin(), treatment.functions.end(),
                                                [](const auto& function) { return moves(function.second); });
}

Words words_for(const TreatedProgram& treated, Running running) {
  if (running == Running::compiled) return {"compiled", "moves"};
  const bool any = treated.moves_input || std::any_of(treated.treatments.begin(), treated.treatments.end(),
                                                      [](const Treatment& one) { return moves(one); });
  return {"eager", any ? "moves" : "stays"};
}

// The lines of a part between marks whose words hold, and of the parts that it includes there.
void put_part(std::string_view part, const Words& words, std::vector<std::string>& lines) {
  bool begun = part == "plan", goes = begun;
  std::vector<std::string> own = split(python_part(part), '\n');
  own.pop_back();  // behind the last line's end
  for (const std::string& line : own) {
    const std::string mark = trim(line);
    if (!begun) goes = begun = mark.starts_with("# --- ");
    if (mark.starts_with(kInclude)) {
      if (goes) put_part(mark.substr(kInclude.size(), mark.size() - kInclude.size() - 1), words, lines);
    } else if (mark.starts_with("# [")) {
      const std::vector<std::string> wanted = split(mark.substr(3, mark.size() - 4), ' ');
      goes = mark == "# [end]" || std::ranges::all_of(wanted, [&](const std::string& w) { return words.contains(w); });
    } else if (goes && !(line.empty() && lines.size() > 1 && lines.back().empty() && lines.end()[-2].empty())) {
      lines.push_back(line);
    }
  }
}

std::string template_of(const Words& words) {
  std::vector<std::string> lines;
  put_part("plan", words, lines);
  return join(lines, "\n") + "\n";
}

void put_places(const TreatedProgram& treated, const Words& words, std::string& text) {
  if (words.contains("moves"))
    text += "    \"input\": \"" + std::string(treated.moves_input ? "host" : "keep") + "\",  # of the first block\n";
  text += "    \"regions\":  # module paths that functions are named by\n";
  put_names(treated.regions, "        ", text);
  text += ",\n";
  text +=
      "    # \"module path/function#occurrence\", by the places of what it returns and of what it saves for itself.\n";
  text += "    \"treatments\": [\n";
  for (const Treatment& treatment : treated.treatments) put_treatment(treatment, text);
  text += "    ],\n";
}

std::string data(const TreatedProgram& treated, const config::Plan& plan, const config::ProgramFacts& facts,
                 const result::Row& row, const report::Report& report, const Words& words) {
  const config::TransferSettings& transfer = plan.transfer;
  const bool ahead = transfer.schedule == config::Schedule::block || transfer.prefetch_bytes > 0;
  const int64_t stash = std::min(transfer.stash_bytes, 2 * treated.most_moved_bytes);
  std::string text(kData);
  text += "    \"name\": " + literal(row.measurement.strategy) +
          ", \"path\": " + literal(list_path(facts.blocks.front().region)) +
          ", \"blocks\": " + std::to_string(facts.blocks.size()) +
          ", \"parameters\": " + std::to_string(facts.parameters) + ",\n";
  if (words.contains("eager")) put_places(treated, words, text);
  if (words.contains("moves"))
    text += "    \"min_bytes\": " + std::to_string(transfer.min_bytes) + ", \"stash_bytes\": " + std::to_string(stash) +
            ", \"prefetch_blocks\": " + std::to_string(ahead ? std::max(1, transfer.prefetch_blocks) : 0) + ",\n";
  if (words.contains("eager")) text += "    \"saved_min_bytes\": " + std::to_string(plan.saved_min_bytes) + ",\n";
  if (words.contains("compiled"))
    text +=
        "    # What all blocks may leave on the device, as the plan does, and what can move while a forward runs.\n"
        "    \"compile\": {\"left_bytes\": " +
        std::to_string(treated.left_bytes) +
        ", \"hidden_bytes\": " + std::to_string(hidden_bytes(treated, row, report)) +
        "}, \"peak_bytes\": " + std::to_string(result::peak(row)) + ",\n";
  return text + "}\n";
}

// Where they begin and end in the template.
std::pair<size_t, size_t> data_of(const std::string& whole) {
  return {whole.find('\n', whole.find(kBegin)) + 1, whole.find(kEnd)};
}

// Strings, numbers and brackets: nothing that could be called.
bool are_literals(std::string_view text) {
  bool in_string = false, in_comment = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\r') return false;  // ends a line too
    if (in_comment) {
      in_comment = c != '\n';
    } else if (in_string) {
      if (c == '\n') return false;
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"' || c == '#') {
      (c == '"' ? in_string : in_comment) = true;
    } else if (std::string_view("0123456789-.{}[]:, \n").find(c) == std::string_view::npos) {
      return false;
    }
  }
  return !in_string && !in_comment;
}

std::string head(const PythonPlan& plan, const result::Row& row, const report::Report& report) {
  Comments comments;
  comments.put("", "memtune " + report.version + ": " + row.measurement.strategy + " as Python, for torch 2.11");
  comments.put_circumstances(report);
  comments.put("measured:  ",
               measured_text(row, report) + "; by memtune's own engines, with the loss and optimizer above");
  for (const std::string& note : plan.notes) comments.put("note:      ", note);
  return join(comments.lines(), "\n") + "\n";
}

}  // namespace

bool is_python_plan(std::string_view text) {
  while (text.starts_with('#')) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  return std::ranges::any_of(kinds(), [&](const Words& words) {
    const std::string whole = template_of(words);
    const auto [begin, end] = data_of(whole);
    const std::string before = whole.substr(0, begin).append(kData), behind = whole.substr(end);
    return text.size() >= before.size() + behind.size() && text.starts_with(before) && text.ends_with(behind) &&
           are_literals(text.substr(before.size(), text.size() - before.size() - behind.size()));
  });
}

PythonPlan write_python_plan(const config::Plan& plan, const config::ProgramFacts& facts, const result::Row& row,
                             const report::Report& report, Running running) {
  if (row.measurement.outcome != result::Outcome::ok)
    throw UsageError("'" + row.measurement.strategy + "' did not work here (" + to_string(row.measurement.outcome) +
                     "): export a strategy that did");
  const TreatedProgram treated = treat(plan, facts);
  PythonPlan result{"", treated.notes};
  const Words words = words_for(treated, running);
  const std::string whole = template_of(words);
  const auto [begin, end] = data_of(whole);
  result.text = head(result, row, report) + whole.substr(0, begin) + data(treated, plan, facts, row, report, words) +
                whole.substr(end);
  return result;
}

}  // namespace memtune::trainer
