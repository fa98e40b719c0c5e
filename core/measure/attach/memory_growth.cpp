#include "core/measure/attach/memory_growth.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/layout.h"

namespace memtune::attach {
namespace {

using result::MemoryGrowth;

constexpr double kLeast = double(int64_t{1} << 20);  // bytes a step: less is no leak
constexpr size_t kSteps = 5;                         // at least, to compare
constexpr int64_t kPiecesShare = 10;                 // of the peak, 1 / this: fewer free pieces are usual

struct Point {
  double step = 0, amount = 0, held = 0;
};

double amount_of(const StepRecord& step) {
  int64_t most = 0;
  for (const std::vector<int64_t>& each : {step.positions, step.rows}) {
    for (const int64_t amount : each) most = std::max(most, amount);
    if (most > 0) break;
  }
  return static_cast<double>(most);
}

std::vector<Point> points_of(const TrainingProcessRecords& records) {
  std::vector<Point> points;
  for (const StepRecord& step : records.steps)
    if (step.phase == MeasurementPhase::measured && step.held_bytes > 0)
      points.push_back({static_cast<double>(step.number), amount_of(step), static_cast<double>(step.held_bytes)});
  return points;
}

// Of Student's distribution, 97.5 %.
double quantile(size_t freedom) {
  constexpr std::array kTable = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228};
  return freedom <= kTable.size() ? kTable[freedom - 1] : 1.96 + 2.5 / static_cast<double>(freedom);
}

struct Fit {
  double slope = 0, error = 0, per_amount = 0;  // error: standard error of the slope
};

// held = a + slope * step + per_amount * amount. Nothing if steps and amounts grow together, so that neither can be
// told from the other.
std::optional<Fit> fitted(const std::vector<Point>& points, bool amounts) {
  const auto count = static_cast<double>(points.size());
  Point mean;
  for (const Point& each : points)
    mean.step += each.step / count, mean.amount += each.amount / count, mean.held += each.held / count;
  double ss = 0, sa = 0, aa = 0, sh = 0, ah = 0;
  for (const Point& each : points) {
    const double step = each.step - mean.step, amount = each.amount - mean.amount, held = each.held - mean.held;
    ss += step * step, sa += step * amount, aa += amount * amount, sh += step * held, ah += amount * held;
  }
  if (!amounts) sa = 0, aa = 1, ah = 0;
  const double determinant = ss * aa - sa * sa;
  if (determinant < 1e-3 * ss * aa) return {};
  Fit fit;
  fit.slope = (aa * sh - sa * ah) / determinant;
  fit.per_amount = (ss * ah - sa * sh) / determinant;
  double residual = 0;
  for (const Point& each : points) {
    const double left =
        each.held - mean.held - fit.slope * (each.step - mean.step) - fit.per_amount * (each.amount - mean.amount);
    residual += left * left;
  }
  const size_t freedom = points.size() - (amounts ? 3 : 2);
  fit.error = std::sqrt(residual / static_cast<double>(freedom) * aa / determinant);
  return fit;
}

// In both halves of the steps, and not by one allocation that lasts.
bool goes_on(const std::vector<Point>& points, double per_amount) {
  const auto held = [&](const Point& point) { return point.held - per_amount * point.amount; };
  const Point& middle = points[points.size() / 2];
  const double all = held(points.back()) - held(points.front());
  return held(middle) - held(points.front()) >= all / 4 && held(points.back()) - held(middle) >= all / 4;
}

// The kind and the line whose bytes grew most between two records.
void find_owner(const TrainingProcessRecords& records, MemoryGrowth& to) {
  if (records.held.size() < 2) return;
  const StepEndMemoryBreakdown &first = records.held.front(), &last = records.held.back();
  const std::pair<const char*, int64_t> kinds[] = {{"parameters", last.parameters_bytes - first.parameters_bytes},
                                                   {"gradients", last.gradients_bytes - first.gradients_bytes},
                                                   {"optimizer", last.optimizer_bytes - first.optimizer_bytes},
                                                   {"buffers", last.buffers_bytes - first.buffers_bytes},
                                                   {"rest", last.rest_bytes - first.rest_bytes}};
  const auto most = std::ranges::max_element(kinds, {}, [](const auto& kind) { return kind.second; });
  if (most->second <= 0) return;
  to.owner = most->first;
  if (to.owner != "rest") return;
  for (const result::AllocatingSourceLine& line : last.lines) {
    const auto before = std::ranges::find_if(first.lines, [&](const result::AllocatingSourceLine& each) {
      return each.file == line.file && each.line == line.line && each.inner == line.inner;
    });
    const bool found = before != first.lines.end();
    const int64_t more = line.bytes - (found ? before->bytes : 0);
    if (more <= to.line.bytes) continue;
    to.line = line;
    to.line.bytes = more;
    to.line.count = std::max<int64_t>(0, line.count - (found ? before->count : 0));
  }
}

bool differ(const std::vector<Point>& points) {
  return std::ranges::adjacent_find(points, [](const Point& a, const Point& b) { return a.amount != b.amount; }) !=
         points.end();
}

const StepRecord* last_measured(const TrainingProcessRecords& records) {
  const auto found =
      std::ranges::find(records.steps.rbegin(), records.steps.rend(), MeasurementPhase::measured, &StepRecord::phase);
  return found == records.steps.rend() ? nullptr : &*found;
}

std::string line_text(const result::AllocatingSourceLine& line) {
  if (line.file.empty()) return "";
  return line.file.substr(line.file.rfind('/') + 1) + ":" + std::to_string(line.line) +
         (line.text.empty() ? "" : " `" + shorten(line.text, 60) + "`");
}

}  // namespace

MemoryGrowth growth_of(const TrainingProcessRecords& records) {
  const std::vector<Point> points = points_of(records);
  MemoryGrowth growth;
  if (points.size() < kSteps) return growth;
  growth.steps = static_cast<int64_t>(points.size());
  const bool amounts = differ(points);
  const std::optional<Fit> fit = fitted(points, amounts), alone = fitted(points, false);
  const Fit& used = fit ? *fit : *alone;
  const double margin = quantile(points.size() - (amounts && fit ? 3 : 2)) * used.error;
  growth.bytes_per_step = used.slope;
  growth.low = used.slope - margin;
  growth.high = used.slope + margin;
  growth.bytes_per_position = amounts && fit ? used.per_amount : 0;
  growth.grows = fit.has_value() && growth.low >= kLeast && goes_on(points, growth.bytes_per_position);
  if (growth.grows) find_owner(records, growth);
  return growth;
}

std::string growth_text(const MemoryGrowth& growth, int64_t device_bytes, int64_t peak_bytes) {
  if (!growth.grows) return "";
  const auto bytes = [](double value) { return format_bytes(static_cast<int64_t>(value)); };
  std::string text = "memory grows by " + bytes(growth.bytes_per_step) + " in each step (95 %: " + bytes(growth.low) +
                     " to " + bytes(growth.high) + ", over " + std::to_string(growth.steps) +
                     " steps), whatever the batch's length: the script keeps tensors of earlier steps";
  if (const std::string line = line_text(growth.line); !line.empty())
    text += ", most of them of " + line;
  else if (!growth.owner.empty() && growth.owner != "rest")
    text += ", most of them " + growth.owner;
  if (device_bytes > peak_bytes && peak_bytes > 0)
    text +=
        ". At that rate the device is full after " +
        std::to_string(static_cast<int64_t>(static_cast<double>(device_bytes - peak_bytes) / growth.bytes_per_step)) +
        " more steps";
  return text;
}

std::string longest_batch_text(const TrainingProcessRecords& records) {
  const StepRecord* last = last_measured(records);
  if (!last || !records.cuda) return "";
  const StepRecord *peak = nullptr, *longest = nullptr;
  double least = 0;
  for (const StepRecord& step : records.steps) {
    if (step.phase > MeasurementPhase::measured || amount_of(step) == 0) continue;
    if (!peak && step.allocated_bytes == last->allocated_bytes) peak = &step;
    if (!longest || amount_of(step) > amount_of(*longest)) longest = &step;
    least = least == 0 ? amount_of(step) : std::min(least, amount_of(step));
  }
  if (!peak || amount_of(*peak) < amount_of(*longest) || amount_of(*longest) < 1.1 * least) return "";
  const bool positions = std::ranges::any_of(peak->positions, [](int64_t each) { return each > 0; });
  const auto number = [](double value) { return std::to_string(static_cast<int64_t>(value)); };
  return "the peak is that of step " + std::to_string(peak->number) + ", whose batch of " + number(amount_of(*peak)) +
         (positions ? " positions" : " rows") + " is the largest (the smallest has " + number(least) +
         "): a larger one would take more";
}

int64_t allocator_retries(const TrainingProcessRecords& records) {
  int64_t before = 0, after = 0;
  for (const StepRecord& step : records.steps) {
    if (step.phase == MeasurementPhase::warmup) before = step.retries;
    if (step.phase == MeasurementPhase::measured) after = step.retries;
  }
  return std::max<int64_t>(0, after - before);
}

std::string fragmentation_text(const TrainingProcessRecords& records) {
  const StepRecord* last = last_measured(records);
  if (!last || !records.cuda) return "";
  const int64_t retries = allocator_retries(records), pieces = last->reserved_bytes - last->allocated_bytes;
  const bool many = last->allocated_bytes > 0 && pieces > last->allocated_bytes / kPiecesShare && pieces >= kLeast;
  if (retries == 0 && !many) return "";
  return "PyTorch reserved " + format_bytes(std::max<int64_t>(0, pieces)) + " more than tensors held at the peak, in " +
         std::to_string(last->segments) + " segments" +
         (retries > 0 ? ", and gave segments back " + std::to_string(retries) +
                            " times in the measured steps because a new one did not fit, which takes time"
                      : "") +
         ": PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True makes segments grow instead";
}

}  // namespace memtune::attach
