// SPDX-License-Identifier: Apache-2.0
// Damaged and hostile files: whatever is in them, reading ends, stays small, and fails with a
// sentence or gives what was there.
//
// TESSERA_FUZZ=nsys is of one reader, TESSERA_MUTATIONS=100000 runs more, TESSERA_MUTATION_SEED=17
// begins at another seed, TESSERA_FUZZ_TRACES=FOLDER has more traces of our own to begin with.
#include <sys/time.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "tests/fuzz/heap_use.h"
#include "tests/fuzz/mutated_bytes.h"
#include "tests/fuzz/mutated_database.h"
#include "tests/fuzz/readers.h"
#include "tests/random.h"
#include "tests/temporary_folder.h"

namespace tessera::test {

namespace fs = std::filesystem;

Files files_at(const std::string& path) {
  const auto content = [](const fs::path& file) {
    std::ifstream stream(file, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(stream), {});
  };
  if (!fs::is_directory(path)) return {{fs::path(path).filename(), content(path)}};
  Files files;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    if (entry.is_regular_file()) {
      files[fs::relative(entry.path(), path).string()] = content(entry.path());
    }
  }
  return files;
}

namespace {

constexpr double seconds_max = 5;
constexpr int endless_seconds = 60;
constexpr std::int64_t heap_anyway = 64 << 20;

// Mutations that failed once, by reader.
constexpr std::pair<const char*, std::int64_t> failed_once[] = {
    {"dcp", 60'011'580},   {"zero", 50'000'123},  {"merge", 50'000'277},
    {"merge", 60'024'630}, {"merge", 71'002'190}, {"universal", 60'066'066}};

std::int64_t number_of(const char* variable, std::int64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::stoll(text);
}

std::vector<FuzzedReader> all_readers(const std::string& scratch) {
  std::vector<FuzzedReader> all = import_readers();
  all.push_back(pickle_reader());
  std::vector<std::string> more;
  if (const char* const folder = std::getenv("TESSERA_FUZZ_TRACES")) {
    for (const auto& entry : fs::directory_iterator(folder)) more.push_back(entry.path());
    std::sort(more.begin(), more.end());
  }
  all.push_back(trace_reader(scratch, more));
  all.push_back(merge_reader(scratch));
  for (FuzzedReader& reader : checkpoint_readers(scratch)) all.push_back(std::move(reader));
  return all;
}

// For the last words of a program that a sanitizer or a signal ends.
std::string running;

void say_running() {
  std::fprintf(stderr, "while reading %s\n", running.c_str());
  std::fflush(stderr);
}

void end_endless(int) {
  say_running();
  std::_Exit(99);
}

/// Seconds of CPU; 0: never.
void end_after(int seconds) {
  const itimerval timer{{}, {seconds, 0}};
  setitimer(ITIMER_PROF, &timer, nullptr);
}

bool is_one_line(const std::string& message) {
  return message.size() > 20 && message.find('\n') == std::string::npos;
}

void write_file_to(const fs::path& path, const std::string& content) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary)
      .write(content.data(), static_cast<std::streamsize>(content.size()));
}

/// One reader's files, in a folder, of which one at a time is damaged.
class Damages {
 public:
  Damages(const FuzzedReader& reader, std::string folder)
      : reader_(reader), folder_(std::move(folder)) {}

  /// Nothing is damaged yet.
  void read_seeds() {
    for (std::size_t seed = 0; seed < reader_.seeds.size(); ++seed) {
      write_seed(seed);
      const Status status = reader_.read(folder_.string(), seed, true);
      INFO(reader_.name << " " << seed << ": " << status.message());
      CHECK(status.ok());
    }
  }

  void run(std::int64_t number) {
    Random random(static_cast<std::uint64_t>(number));
    const auto seed = static_cast<std::size_t>(random.below(std::ssize(reader_.seeds)));
    if (at_ != seed) write_seed(seed);
    const Files& files = reader_.seeds[seed];
    const auto place = std::next(files.begin(), random.below(std::ssize(files)));
    const std::string damaged = damage(place->second, random);
    write_file_to(folder_ / place->first, damaged);
    std::int64_t size = std::ssize(damaged);
    for (const auto& [name, content] : files) {
      if (name != place->first) size += std::ssize(content);
    }
    read(seed, size, random.chance(15));
    write_file_to(folder_ / place->first, place->second);
  }

  std::int64_t succeeded() const { return succeeded_; }
  double slowest() const { return slowest_; }

 private:
  void write_seed(std::size_t seed) {
    fs::remove_all(folder_);
    for (const auto& [name, content] : reader_.seeds[seed]) write_file_to(folder_ / name, content);
    at_ = seed;
  }

  std::string damage(const std::string& original, Random& random) {
    std::string bytes;
    if (MutableDatabase::is_database(original) && random.chance(75)) {
      auto& database = databases_[original];
      if (!database) database.emplace(original);
      bytes = database->mutated(random);
      if (random.chance(95)) return bytes;
    } else {
      bytes = original;
    }
    for (std::int64_t i = random.below(random.chance(20) ? 30 : 3); i >= 0; --i) {
      mutate_bytes(bytes, random);
    }
    return bytes;
  }

  void read(std::size_t seed, std::int64_t size, bool whole) {
    restart_heap_use();
    const auto start = std::clock();
    end_after(endless_seconds);
    const Status status = reader_.read(folder_.string(), seed, whole);
    end_after(0);
    const double took = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    const std::int64_t used = most_heap_used();
    slowest_ = std::max(slowest_, took);
    INFO(took << " s of CPU, " << used << " bytes of memory for " << size);
    INFO(status.message());
    if (took > seconds_max) CHECK(took <= seconds_max);
    if (used > 4 * size + heap_anyway) CHECK(used <= 4 * size + heap_anyway);
    if (status.ok()) {
      ++succeeded_;
    } else if (!is_one_line(status.message())) {
      CHECK(is_one_line(status.message()));
    }
  }

  const FuzzedReader& reader_;
  const fs::path folder_;
  std::optional<std::size_t> at_;
  std::map<std::string, std::optional<MutableDatabase>> databases_;
  std::int64_t succeeded_ = 0;
  double slowest_ = 0;
};

TEST_CASE("no damaged file crashes a reader, runs for long, takes much or is believed", "[fuzz]") {
  say_at_death(say_running);
  std::signal(SIGPROF, end_endless);
  const TemporaryFolder folder;
  const char* const chosen = std::getenv("TESSERA_FUZZ");
  const std::int64_t first = number_of("TESSERA_MUTATION_SEED", 1);
  const std::int64_t count = number_of("TESSERA_MUTATIONS", generated(150));
  int readers = 0;
  for (const FuzzedReader& reader : all_readers(folder.path())) {
    if (chosen != nullptr && reader.name != chosen) continue;
    ++readers;
    Damages damages(reader, folder.path() + "/" + reader.name);
    damages.read_seeds();
    for (std::int64_t number = first; number < first + count; ++number) {
      running = "TESSERA_FUZZ=" + reader.name + " TESSERA_MUTATION_SEED=" + std::to_string(number) +
                " TESSERA_MUTATIONS=1";
      INFO(running);
      damages.run(number);
    }
    for (const auto& [name, number] : failed_once) {
      running = "the mutation " + std::to_string(number) + " of " + reader.name;
      INFO(running);
      if (reader.name == name) damages.run(number);
    }
    if (count < 1000) continue;
    std::printf("%s: %lld from %lld on, %lld of them read, slowest %.2f s of CPU\n",
                reader.name.c_str(), static_cast<long long>(count), static_cast<long long>(first),
                static_cast<long long>(damages.succeeded()), damages.slowest());
  }
  CHECK(readers > 0);
}

}  // namespace
}  // namespace tessera::test
