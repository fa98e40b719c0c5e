#include "core/answer/report/interchange/memory_snapshot.h"

#include <algorithm>
#include <map>

#include "core/answer/report/interchange/pickle_writer.h"
#include "core/base/utf8.h"

namespace memtune::report {
namespace {

constexpr int64_t kFirstAddress = int64_t{0x7f00} << 32, kGranule = 2 << 20;

struct Block {
  int64_t size = 0;
  std::string name;
};

// The viewer colors by category and has few colors, so all blocks share one.
std::string category_of(const trace::MemoryOwner& owner) {
  return owner.kind == trace::MemoryOwnerKind::block ? "activations" : owner.name;
}

struct Entry {
  const char* action;
  size_t owner;
  int64_t offset;  // within the owner's segment
  Block block;
  int64_t time_ns;
};

// Turns totals over time into allocations and frees. shrink_to may free too much, so the caller calls grow_to
// afterwards.
class Pile {
 public:
  void shrink_to(int64_t bytes, size_t owner, int64_t time_ns, std::vector<Entry>& entries) {
    while (held_ > bytes) {
      Block top = std::move(blocks_.back());
      blocks_.pop_back();
      held_ -= top.size;
      for (const char* action : {"free_requested", "free_completed"})
        entries.push_back({action, owner, held_, top, time_ns});
    }
  }

  void grow_to(int64_t bytes, const std::string& name, size_t owner, int64_t time_ns, std::vector<Entry>& entries) {
    if (bytes > held_) push({bytes - held_, name}, owner, time_ns, entries);
  }

  int64_t held() const { return held_; }
  int64_t most() const { return most_; }
  const std::vector<Block>& blocks() const { return blocks_; }

 private:
  void push(Block block, size_t owner, int64_t time_ns, std::vector<Entry>& entries) {
    entries.push_back({"alloc", owner, held_, block, time_ns});
    held_ += block.size;
    most_ = std::max(most_, held_);
    blocks_.push_back(std::move(block));
  }

  std::vector<Block> blocks_;
  int64_t held_ = 0, most_ = 0;
};

// Names an allocation after the last saved tensor of the same block and size, which is its likely content.
class SavedNames {
 public:
  explicit SavedNames(const trace::Trace& trace) : trace_(trace) {
    for (const trace::TraceEvent& event : trace.events) {
      if (event.kind == trace::EventKind::save && event.value) saves_.push_back(&event);
    }
    std::stable_sort(saves_.begin(), saves_.end(),
                     [](const auto* a, const auto* b) { return a->start_ns < b->start_ns; });
  }

  std::string name(const trace::MemoryOwner& owner, int64_t bytes, int64_t time_ns) {
    for (; next_ < saves_.size() && saves_[next_]->start_ns <= time_ns; ++next_) {
      const trace::TracedActivationPlacement& value = trace_.value(saves_[next_]->value);
      latest_[{value.block, value.bytes}] = &value;
    }
    const auto found = owner.kind == trace::MemoryOwnerKind::block ? latest_.find({owner.block, bytes}) : latest_.end();
    return found == latest_.end() ? owner.name : found->second->name;
  }

 private:
  const trace::Trace& trace_;
  std::vector<const trace::TraceEvent*> saves_;
  size_t next_ = 0;
  std::map<std::pair<int32_t, int64_t>, const trace::TracedActivationPlacement*> latest_;
};

class Snapshot {
 public:
  explicit Snapshot(const trace::Trace& trace)
      : trace_(trace), owners_(trace.owners), names_(trace), wanted_(owners_.size() + 1), piles_(owners_.size() + 1) {
    owners_.push_back({trace::MemoryOwnerKind::work_space, "work space"});
    replay();
    int64_t address = kFirstAddress;
    for (const Pile& pile : piles_) {
      addresses_.push_back(address);
      address += (segment_size(pile) / kGranule + 1) * kGranule;
    }
  }

  std::string write() {
    pickle_.begin_dict();
    pickle_.text("segments");
    pickle_.begin_list();
    for (size_t owner = 0; owner < piles_.size(); ++owner) {
      if (piles_[owner].most() > 0) put_segment(owner);
    }
    pickle_.end_list();
    put_trace();
    pickle_.text("allocator_settings");
    pickle_.begin_dict();
    pickle_.end_dict();
    pickle_.end_dict();
    return std::move(pickle_).finish();
  }

 private:
  static int64_t segment_size(const Pile& pile) { return (pile.most() + kGranule - 1) / kGranule * kGranule; }

  // Owners and totals are sampled at different times. Both are taken at the samples of the total, so that no sum is too
  // high.
  void replay() {
    size_t next = 0;
    const auto take_until = [&](int64_t time_ns) {
      for (; next < trace_.owned.size() && trace_.owned[next].time_ns <= time_ns; ++next)
        wanted_[trace_.owned[next].owner] = std::max<int64_t>(0, trace_.owned[next].bytes);
    };
    for (const trace::AllocatedBytesSample& sample : trace_.memory) {
      take_until(sample.time_ns);
      wanted_.back() = 0;
      int64_t owned = 0;
      for (int64_t bytes : wanted_) owned += bytes;
      wanted_.back() = std::max<int64_t>(0, sample.allocated_bytes - owned);
      apply(sample.time_ns);
    }
    if (next < trace_.owned.size()) {
      take_until(trace_.owned.back().time_ns);
      apply(trace_.owned.back().time_ns);
    }
  }

  void apply(int64_t time_ns) {
    for (size_t i = 0; i < piles_.size(); ++i) {
      if (wanted_[i] < piles_[i].held()) piles_[i].shrink_to(wanted_[i], i, time_ns, entries_);
    }
    for (size_t i = 0; i < piles_.size(); ++i) {
      if (wanted_[i] <= piles_[i].held()) continue;
      piles_[i].grow_to(wanted_[i], names_.name(owners_[i], wanted_[i] - piles_[i].held(), time_ns), i, time_ns,
                        entries_);
    }
  }

  void field(const char* name, int64_t value) {
    pickle_.text(name);
    pickle_.integer(value);
  }
  void field(const char* name, const std::string& value) {
    pickle_.text(name);
    pickle_.text(value);
  }

  void put_frames(const std::string& name, size_t owner) {
    pickle_.text("frames");
    pickle_.begin_list();
    pickle_.begin_dict();
    field("name", valid_utf8(name));
    field("filename", valid_utf8(owners_[owner].name));
    field("line", 0);
    pickle_.end_dict();
    pickle_.end_list();
  }

  void put_block(int64_t address, const Block& block, size_t owner, bool active) {
    pickle_.begin_dict();
    field("address", address);
    field("size", block.size);
    field("requested_size", block.size);
    field("state", std::string(active ? "active_allocated" : "inactive"));
    put_frames(block.name, owner);
    pickle_.end_dict();
  }

  void put_segment(size_t owner) {
    const Pile& pile = piles_[owner];
    pickle_.begin_dict();
    field("device", 0);
    field("address", addresses_[owner]);
    field("total_size", segment_size(pile));
    for (const char* held : {"allocated_size", "active_size", "requested_size"}) field(held, pile.held());
    field("stream", 0);
    field("segment_type", std::string("large"));
    pickle_.text("segment_pool_id");
    pickle_.begin_tuple();
    pickle_.integer(0);
    pickle_.integer(0);
    pickle_.end_tuple();
    pickle_.text("is_expandable");
    pickle_.boolean(false);
    put_frames(owners_[owner].name, owner);
    pickle_.text("blocks");
    pickle_.begin_list();
    int64_t address = addresses_[owner];
    for (const Block& block : pile.blocks()) {
      put_block(address, block, owner, true);
      address += block.size;
    }
    const int64_t rest = addresses_[owner] + segment_size(pile) - address;
    if (rest > 0) put_block(address, {rest, owners_[owner].name}, owner, false);
    pickle_.end_list();
    pickle_.end_dict();
  }

  void put_entry(const char* action, int64_t address, int64_t size, int64_t time_ns, const std::string& name,
                 size_t owner, const std::string& category) {
    pickle_.begin_dict();
    field("action", std::string(action));
    field("addr", address);
    field("size", size);
    field("stream", 0);
    field("time_us", time_ns / 1000);
    field("category", valid_utf8(category));
    put_frames(name, owner);
    pickle_.end_dict();
  }

  // One version of the viewer stops if no entry has the category "unknown".
  void put_trace() {
    pickle_.text("device_traces");
    pickle_.begin_list();
    pickle_.begin_list();
    const int64_t start_ns = entries_.empty() ? 0 : entries_.front().time_ns;
    for (size_t owner = 0; owner < piles_.size(); ++owner) {
      if (piles_[owner].most() > 0)
        put_entry("segment_alloc", addresses_[owner], segment_size(piles_[owner]), start_ns, owners_[owner].name, owner,
                  "unknown");
    }
    for (const Entry& entry : entries_)
      put_entry(entry.action, addresses_[entry.owner] + entry.offset, entry.block.size, entry.time_ns, entry.block.name,
                entry.owner, category_of(owners_[entry.owner]));
    pickle_.end_list();
    pickle_.end_list();
  }

  const trace::Trace& trace_;
  std::vector<trace::MemoryOwner> owners_;
  SavedNames names_;
  std::vector<int64_t> wanted_;
  std::vector<Pile> piles_;
  std::vector<Entry> entries_;
  std::vector<int64_t> addresses_;
  PickleWriter pickle_;
};

}  // namespace

std::string memory_snapshot(const trace::Trace& trace) { return Snapshot(trace).write(); }

}  // namespace memtune::report
