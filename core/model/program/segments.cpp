#include "core/model/program/segments.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace memtune::program {
namespace {

using plan::ProgramFacts;
using plan::ProgramOpFacts;

// A top-level op with all ops inside of it: branches are not cut.
struct Piece {
  int begin = 0, end = 0;  // op numbers [begin, end)
  double cost = 0;         // saved bytes
  double crossing = 0;     // bytes made before its end and read after it
};

class Segmenter {
 public:
  Segmenter(const Program& program, ProgramFacts& facts) : facts_(facts) {
    const std::vector<Op>& ops = program.body.ops;
    for (size_t i = 0; i < ops.size() && program.path(ops[i]) != "loss"; ++i)
      pieces_.push_back({ops[i].id, i + 1 < ops.size() ? ops[i + 1].id : program.ops});
    for (Piece& piece : pieces_) piece.cost = cost(piece, /*measured=*/true);
    if (total() == 0)
      for (Piece& piece : pieces_) piece.cost = cost(piece, /*measured=*/false);
    find_crossing();
  }

  // Chooses the number of segments with the least sum: bytes kept between segments plus saved bytes of the largest one.
  std::vector<int> best_cuts() const {
    std::vector<int> best;
    double least = -1;
    for (size_t segments = 2; segments <= std::min(kMax, pieces_.size()); ++segments) {
      const std::vector<int> cuts = cuts_into(segments);
      const double peak = peak_of(cuts);
      if (least < 0 || peak < least) {
        least = peak;
        best = cuts;
      }
    }
    if (best.empty() && pieces_.size() > 1) best = {static_cast<int>(pieces_.size() / 2) - 1};
    return best;
  }

  void apply(const std::vector<int>& cuts) {
    int begin = 0;
    for (size_t i = 0; i <= cuts.size(); ++i) {
      const int end = i < cuts.size() ? cuts[i] + 1 : static_cast<int>(pieces_.size());
      for (int op = pieces_[begin].begin; op < pieces_[end - 1].end; ++op) facts_.ops[op].block = static_cast<int>(i);
      facts_.blocks.push_back({"segment." + std::to_string(i)});
      begin = end;
    }
    for (size_t op = pieces_.back().end; op < facts_.ops.size(); ++op) facts_.ops[op].after_blocks = true;
  }

  bool empty() const { return pieces_.empty(); }

 private:
  static constexpr size_t kMax = 32;

  double total() const {
    return std::accumulate(pieces_.begin(), pieces_.end(), 0.0,
                           [](double sum, const Piece& p) { return sum + p.cost; });
  }

  double cost(const Piece& piece, bool measured) const {
    double sum = 0;
    for (int op = piece.begin; op < piece.end; ++op) {
      const ProgramOpFacts& fact = facts_.ops[op];
      sum += measured ? static_cast<double>(saved_bytes(fact)) : fact.op_class != plan::OpClass::host && !fact.view;
    }
    return sum;
  }

  // Counted by owner, so that a late read of a view counts as a read of the viewed bytes.
  void find_crossing() {
    std::vector<double> bytes(facts_.ops.size(), 0);
    std::vector<int> piece_of(facts_.ops.size(), static_cast<int>(pieces_.size())), last(facts_.ops.size(), -1);
    for (size_t i = 0; i < pieces_.size(); ++i)
      std::fill(piece_of.begin() + pieces_[i].begin, piece_of.begin() + pieces_[i].end, static_cast<int>(i));
    for (size_t op = 0; op < facts_.ops.size(); ++op) {
      const ProgramOpFacts& fact = facts_.ops[op];
      for (size_t i = 0; i < fact.outputs.size(); ++i)
        if (const int owner = facts_.owner[fact.outputs[i]]; owner >= 0)
          bytes[owner] += fact.output_bytes.empty() ? 1 : static_cast<double>(fact.output_bytes[i]);
      for (const int input : fact.inputs)
        if (const int owner = facts_.owner[input]; owner >= 0) last[owner] = std::max(last[owner], piece_of[op]);
    }
    for (size_t owner = 0; owner < facts_.ops.size(); ++owner)
      for (int i = piece_of[owner]; i < last[owner] && i < static_cast<int>(pieces_.size()); ++i)
        pieces_[i].crossing += bytes[owner];
  }

  // Index of the last piece of each segment but the last: near the equal share, where the fewest bytes cross.
  std::vector<int> cuts_into(size_t segments) const {
    std::vector<int> cuts;
    const double share = total() / static_cast<double>(segments);
    double sum = 0;
    std::pair<double, double> least;  // bytes that cross, then distance from the equal share
    int best = -1;
    for (int i = 0; i + 1 < static_cast<int>(pieces_.size()) && cuts.size() + 1 < segments; ++i) {
      sum += pieces_[i].cost;
      const double wanted = share * static_cast<double>(cuts.size() + 1);
      const std::pair<double, double> here = {pieces_[i].crossing, std::abs(sum - wanted)};
      if (sum >= wanted - share / 4 && (best < 0 || here < least)) {
        best = i;
        least = here;
      }
      if (best < 0 || sum + pieces_[i + 1].cost <= wanted + share / 4) continue;
      cuts.push_back(best);
      best = -1;
    }
    return cuts;
  }

  double peak_of(const std::vector<int>& cuts) const {
    double kept = 0, largest = 0, inside = 0;
    size_t next = 0;
    for (int i = 0; i < static_cast<int>(pieces_.size()); ++i) {
      inside += pieces_[i].cost;
      largest = std::max(largest, inside);
      if (next == cuts.size() || cuts[next] != i) continue;
      kept += pieces_[i].crossing;
      inside = 0;
      ++next;
    }
    return kept + largest;
  }

  ProgramFacts& facts_;
  std::vector<Piece> pieces_;
};

}  // namespace

void cut_into_segments(const Program& program, ProgramFacts& facts) {
  if (!facts.blocks.empty()) return;
  Segmenter segmenter(program, facts);
  if (segmenter.empty()) return;
  segmenter.apply(segmenter.best_cuts());
  facts.notes.push_back("no repeated blocks were found: " + std::to_string(facts.blocks.size()) +
                        " segments of about equal cost stand for them; --blocks 'layers.*' names modules instead");
}

}  // namespace memtune::program
