#include "core/findings/knobs.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/base/bytes.h"

namespace memtune::findings {
namespace {

constexpr const char* kSideStream = "offload:sync -> offload:stream, whose copies run beside compute";

// "1GiB": as strategies take it, without the blank.
std::string size(int64_t bytes) {
  std::string text = format_bytes(bytes);
  std::erase(text, ' ');
  return text;
}

std::string change(const std::string& parameter, const std::string& from, const std::string& to) {
  return parameter + "=" + from + " -> " + parameter + "=" + to;
}

// 0.62 -> "0.6": steps of a twentieth, downwards, and never nothing.
std::string share_text(double share) {
  const int percent = std::max(5, static_cast<int>(std::floor(share * 20 + 1e-9)) * 5);
  std::string digits = std::to_string(percent);
  if (percent >= 100) return "1";
  digits = (percent < 10 ? "0" : "") + digits;
  if (digits.ends_with('0')) digits.pop_back();
  return "0." + digits;
}

}  // namespace

bool Knobs::offloads() const { return strategy_.find("offload:") != std::string::npos; }

std::string Knobs::value(const std::string& parameter, const std::string& otherwise) const {
  const size_t found = strategy_.find("," + parameter + "=");
  if (found == std::string::npos) return otherwise;
  const size_t begin = found + parameter.size() + 2;
  return strategy_.substr(begin, strategy_.find_first_of(",+", begin) - begin);
}

std::string Knobs::setting(const std::string& parameter, const std::string& field, const std::string& from,
                           const std::string& to) const {
  if (offloads()) return change(parameter, from, to);
  return "\"" + field + "\" of the plan's transfer " + from + " -> " + to;
}

std::string Knobs::deeper_prefetch() const {
  if (!plan_) return "a deeper prefetch";
  const config::TransferSettings& transfer = plan_->transfer;
  if (!transfer.side_stream) return kSideStream;
  if (transfer.schedule == config::Schedule::block) {
    const int now = transfer.prefetch_blocks;
    return setting("prefetch", "prefetch_blocks", std::to_string(now), std::to_string(now + 1));
  }
  const int64_t deeper = std::max(int64_t{1} << 30, 2 * transfer.prefetch_bytes);
  return setting("prefetch", "prefetch_bytes", size(transfer.prefetch_bytes), size(deeper));
}

std::string Knobs::larger_stash() const {
  if (!plan_) return "a larger stash";
  const config::TransferSettings& transfer = plan_->transfer;
  if (!transfer.side_stream) return kSideStream;
  if (transfer.schedule == config::Schedule::block) {
    const int now = transfer.groups_in_flight;
    return setting("in_flight", "groups_in_flight", std::to_string(now), std::to_string(now + 1));
  }
  return setting("stash", "stash_bytes", size(transfer.stash_bytes), size(2 * transfer.stash_bytes));
}

std::string Knobs::move_less(double share) const {
  if (!offloads()) return "place fewer values on host";
  const std::string now = value("fraction", "1");
  double fraction = 1;
  std::from_chars(now.data(), now.data() + now.size(), fraction);
  return change("fraction", now, share_text(fraction * share));
}

std::string Knobs::keep_small(int64_t bytes) const {
  if (!plan_) return "leave values under " + size(bytes) + " on the device";
  return setting("min", "min_bytes", size(plan_->transfer.min_bytes),
                 size(std::max(bytes, 2 * plan_->transfer.min_bytes)));
}

std::string Knobs::pinned() const {
  if (plan_ && !plan_->transfer.pinned)
    return offloads() ? change("memory", "pageable", "pinned") : "\"pinned\": true in the plan's transfer";
  return "the model copies between devices itself: page-lock that tensor, or keep it here";
}

std::string Knobs::keep_last() const {
  if (!offloads()) return "keep the last block's values on the device";
  const bool group = strategy_.find("offload:group") != std::string::npos;
  const std::string now = value("keep_last", group ? "1" : "0");
  int64_t blocks = 0;
  std::from_chars(now.data(), now.data() + now.size(), blocks);
  return change("keep_last", now, std::to_string(blocks + 1));
}

std::string Knobs::do_less() const {
  if (offloads()) return "a smaller fraction=, or keep_last=, leaves more on the device";
  return "blocks= or a rule of a plan keeps more on the device";
}

}  // namespace memtune::findings
