// SPDX-License-Identifier: Apache-2.0
// A memory snapshot as torch.cuda.memory._snapshot() gives it, a device per rank.
#include <fmt/format.h>

#include <deque>
#include <map>

#include "exchange/export/exporter.h"
#include "exchange/export/output_file.h"
#include "exchange/export/pickle_writer.h"

namespace tessera::exchange {
namespace {

struct Block {
  std::int64_t address = 0, size = 0;
  std::int32_t buffer = 0;
};

constexpr std::int64_t alignment = 512, first_address = std::int64_t{1} << 40;

std::int64_t rounded(std::int64_t size) { return (size + alignment - 1) / alignment * alignment; }

/// Where a block would lie: traces have no addresses, so each gets one that nobody had before.
class MadeAddresses {
 public:
  Block allocate(std::int32_t buffer, std::int64_t size) {
    const Block block{next_, size, buffer};
    next_ += rounded(size);
    live_[{buffer, size}].push_back(block);
    return block;
  }
  /// The oldest of that buffer and size; of size 0 if there is none.
  Block release(std::int32_t buffer, std::int64_t size) {
    const auto found = live_.find({buffer, size});
    if (found == live_.end() || found->second.empty()) return {};
    const Block block = found->second.front();
    found->second.pop_front();
    return block;
  }
  std::map<std::int64_t, Block> live() const {
    std::map<std::int64_t, Block> blocks;
    for (const auto& [key, list] : live_) {
      for (const Block& block : list) blocks.emplace(block.address, block);
    }
    return blocks;
  }

 private:
  std::int64_t next_ = first_address;
  std::map<std::pair<std::int32_t, std::int64_t>, std::deque<Block>> live_;
};

/// JSON and pickles want UTF-8; names come from files of others.
std::string plain_text(std::string_view text) {
  std::string plain;
  for (const char c : text) plain += c >= ' ' && c < 127 ? c : '?';
  return plain;
}

class Snapshot final : public Exporter {
 public:
  Snapshot(const std::string& out, OutputFile file, Buffers buffers)
      : out_(out), file_(std::move(file)), buffers_(std::move(buffers)) {}

  Status begin() override {
    pickle_.begin_dict();
    pickle_.text("device_traces");
    pickle_.begin_list();
    return {};
  }

  Status span(const ExportedSpan&) override { return {}; }
  bool wants_memory() const override { return true; }
  bool holds_host_memory() const override { return false; }

  // Devices of a snapshot are counted from 0.
  Status memory(const storage::MemorySeries& series) override {
    MadeAddresses addresses;
    pickle_.begin_list();
    for (std::size_t i = 0; i < series.time.size(); ++i) {
      const std::int64_t delta = series.delta[i].value;
      if (delta == 0 || !is_on_device(series.memory_class[i])) continue;
      const bool allocates = delta > 0;
      const Block block = allocates ? addresses.allocate(series.buffer[i], delta)
                                    : addresses.release(series.buffer[i], -delta);
      if (block.size == 0) {
        ++without_begin_;
        continue;
      }
      any_ = true;
      if (!allocates) event("free_requested", series.time[i], block, series.memory_class[i]);
      event(allocates ? "alloc" : "free_completed", series.time[i], block, series.memory_class[i]);
      file_.write(pickle_.take());
    }
    pickle_.end_list();
    const std::int64_t reserved = series.reserved.empty() ? 0 : series.reserved.back().value;
    devices_.push_back({addresses.live(), reserved});
    return {};
  }

  Status finish(Exported& done) override {
    if (!any_) {
      return {Code::invalid_argument,
              "The trace has no samples of a device's memory to make a snapshot of."};
    }
    pickle_.end_list();
    pickle_.text("segments");
    pickle_.begin_list();
    for (std::size_t device = 0; device < devices_.size(); ++device) add_segments(device);
    pickle_.end_list();
    pickle_.end_dict();
    pickle_.finish();
    file_.write(pickle_.take());
    if (without_begin_ > 0) {
      done.warnings.push_back(fmt::format(
          "{} releases of what was allocated before the recording were left out", without_begin_));
    }
    done.files.push_back(out_);
    return file_.finish();
  }

 private:
  struct Device {
    std::map<std::int64_t, Block> live;
    std::int64_t reserved = 0;
  };

  void frames(std::int32_t buffer, MemoryClass memory_class) {
    const storage::BufferRow& row = buffer_of(buffers_, buffer);
    pickle_.text("frames");
    pickle_.begin_list();
    for (const std::string& name :
         {plain_text(row.name), plain_text(row.unit), std::string(name_of(memory_class))}) {
      if (name.empty()) continue;
      pickle_.begin_dict();
      pickle_.member("filename", "");
      pickle_.member("line", std::int64_t{0});
      pickle_.member("name", name);
      pickle_.end_dict();
    }
    pickle_.end_list();
  }

  void event(const char* action, Time time, const Block& block, MemoryClass memory_class) {
    pickle_.begin_dict();
    pickle_.member("action", action);
    pickle_.member("addr", block.address);
    pickle_.member("size", block.size);
    pickle_.member("stream", std::int64_t{0});
    pickle_.member("time_us", time / 1000 + 1);  // 0 says that there is no time
    frames(block.buffer, memory_class);
    pickle_.end_dict();
  }

  /// A segment for each block that is left, and one for what is reserved beside them.
  void add_segments(std::size_t device) {
    const auto& [live, reserved] = devices_[device];
    std::int64_t left = reserved, end = first_address;
    for (const auto& [address, block] : live) {
      add_segment(device, block, true);
      left -= block.size;
      end = address + rounded(block.size);
    }
    if (left > 0) add_segment(device, {end, left, -1}, false);
  }

  void add_segment(std::size_t device, const Block& block, bool active) {
    const std::int64_t allocated = active ? block.size : 0;
    pickle_.begin_dict();
    pickle_.member("device", static_cast<std::int64_t>(device));
    pickle_.member("address", block.address);
    pickle_.member("total_size", block.size);
    pickle_.member("allocated_size", allocated);
    pickle_.member("active_size", allocated);
    pickle_.member("requested_size", allocated);
    pickle_.member("stream", std::int64_t{0});
    pickle_.member("segment_type", "large");
    pickle_.text("frames");
    pickle_.begin_list();
    pickle_.end_list();
    pickle_.text("blocks");
    pickle_.begin_list();
    pickle_.begin_dict();
    pickle_.member("address", block.address);
    pickle_.member("size", block.size);
    pickle_.member("requested_size", allocated);
    pickle_.member("state", active ? "active_allocated" : "inactive");
    frames(block.buffer, buffer_of(buffers_, block.buffer).memory_class);
    pickle_.end_dict();
    pickle_.end_list();
    pickle_.end_dict();
  }

  const std::string out_;
  OutputFile file_;
  const Buffers buffers_;
  PickleWriter pickle_;
  std::vector<Device> devices_;
  std::int64_t without_begin_ = 0;
  bool any_ = false;
};

}  // namespace

Result<std::unique_ptr<Exporter>> snapshot_exporter(const analysis::Trace& trace,
                                                    const std::string& out, Rank) {
  TESSERA_ASSIGN(Buffers buffers, trace.reader().buffers());
  TESSERA_ASSIGN(OutputFile file, OutputFile::create(out));
  return std::unique_ptr<Exporter>(
      std::make_unique<Snapshot>(out, std::move(file), std::move(buffers)));
}

}  // namespace tessera::exchange
