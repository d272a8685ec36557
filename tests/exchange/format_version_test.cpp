// SPDX-License-Identifier: Apache-2.0
// What a file says that no reader knows is named, once, and stays in the trace.
#include "exchange/import/format_version.h"

#include <sqlite3.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <iterator>

#include "tests/exchange/imports.h"
#include "tests/exchange/made_profile.h"

namespace tessera {
namespace {

using test::Imports;

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  REQUIRE(text.find(from) != std::string::npos);
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

/// A copy of a recorded database after `sql`.
std::string changed(const Imports& imports, const std::string& name, const std::string& sql) {
  const std::string path = imports.path(name);
  std::filesystem::copy_file(test::recorded(name), path);
  sqlite3* connection = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &connection) == SQLITE_OK);
  INFO(sql);
  CHECK(sqlite3_exec(connection, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(connection);
  return path;
}

TEST_CASE("packed and foreign files are refused with what to do, and none is read twice",
          "[exchange]") {
  const Imports imports;
  const auto refusal = [&](const std::vector<std::string>& files) {
    return imports.import(files).status().message();
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != text.npos;
  };
  CHECK(has(refusal({imports.file("a.xz", "\3757zXZ and so on")}), "packed by xz"));
  CHECK(has(refusal({imports.file("a.zip", "PK\x03\x04 and so on")}), "a zip archive"));
  const std::string tar = std::string(257, 'k') + "ustar  ";
  CHECK(has(refusal({imports.file("a.tar", tar)}), "a tar archive"));
  CHECK(has(refusal({imports.file("a.json", "\xFF\xFE{")}), "UTF-16"));
  CHECK(has(refusal({imports.file("empty", "")}), "it is empty"));
  CHECK(has(refusal({TESSERA_SOURCE_DIR "/traces/fused.tessera"}), "is a trace of Tessera"));
  const std::string log = test::recorded("inspector.0.log");
  CHECK(has(refusal({log, log}), "to be imported twice"));
}

/// Of an import: how often it and the trace that it made say `part`.
std::pair<std::int64_t, std::int64_t> said(const Imports& imports, const std::string& path,
                                           const std::string& part) {
  const auto done = test::require_value(imports.import({path}));
  const auto has = [&](const std::string& text) { return text.find(part) != std::string::npos; };
  const auto notes = test::require_value(imports.trace().reader().diagnostics());
  for (const std::string& warning : done.warnings) UNSCOPED_INFO(warning);
  return {std::count_if(done.warnings.begin(), done.warnings.end(), has),
          std::count_if(notes.begin(), notes.end(),
                        [&](const auto& note) { return has(note.message); })};
}

constexpr std::pair<std::int64_t, std::int64_t> once = {1, 1}, never = {0, 0};

TEST_CASE("versions are the first two numbers of what a file says", "[exchange]") {
  using exchange::format_version;
  using exchange::FormatVersion;
  CHECK(format_version("2.10") == FormatVersion(2, 10));
  CHECK(format_version("v4.0") == FormatVersion(4, 0));
  CHECK(format_version("1.0.2-chakra.0.0.4") == FormatVersion(1, 0));
  CHECK(format_version("3") == FormatVersion(3, 0));
  CHECK(format_version("99999999999999.1").has_value());
  CHECK_FALSE(format_version("new").has_value());
}

TEST_CASE("files of a version that is not known are named in one warning, and no others are",
          "[exchange]") {
  const Imports imports;
  const std::string unknown = "are of version 9.1, known is";
  struct Changed {
    const char *file, *from, *to;
  };
  for (const Changed& c : {Changed{"flight_missing_rank_0.json", "\"2.10\"", "\"9.1\""},
                           Changed{"flight_missing_rank_0.pickle", "2.10", "9.1 "},
                           Changed{"chakra.0.et", "0.0.4", "9.1.4"},
                           Changed{"execution_trace_102.json", "1.0.2-", "9.1.2-"},
                           Changed{"inspector.0.log", "v4.0", "v9.1"}}) {
    INFO(c.file);
    const std::string whole = content_of(test::recorded(c.file));
    CHECK(said(imports, test::recorded(c.file), "known is") == never);
    CHECK(said(imports, imports.file(c.file, replaced(whole, c.from, c.to)), unknown) == once);
  }
  const std::string profile = test::made_profile({});
  CHECK(said(imports, imports.file("rank0", profile), "known is") == never);
  CHECK(said(imports,
             imports.file("rank0",
                          replaced(profile, "\"schemaVersion\": 1", "\"schemaVersion\": \"9.1\"")),
             unknown) == once);
  const std::string about =
      "INSERT INTO \"rocpd_metadata%\" (tag, value) VALUES "
      "('schema_version', '9.1')";
  const std::string run = "_00001c92_7c2e_7d3a_9c51_f1b2c3d4e5f6";
  CHECK(said(imports, changed(imports, "rpd.rpd", replaced(about, "%", "")), unknown) == once);
  CHECK(said(imports, changed(imports, "rocpd4.db", replaced(about, "%", run)), unknown) == once);
  CHECK(said(imports,
             changed(imports, "nsys.sqlite",
                     "CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);"
                     "INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '9.1.0')"),
             unknown) == once);
}

TEST_CASE("a dump that does not say its version is named, too", "[exchange]") {
  const Imports imports;
  const std::string dump = replaced(content_of(test::recorded("flight_missing_rank_0.json")),
                                    "\"version\"", "\"of what\"");
  CHECK(said(imports, imports.file("rank_0.json", dump), "are of an unnamed version") == once);
}

TEST_CASE("states, kinds and types that are not known are counted and named", "[exchange]") {
  const Imports imports;
  const std::string dump = content_of(test::recorded("flight_missing_rank_0.json"));
  const auto of_dump = [&](const char* from, const char* to, const char* part) {
    return said(imports, imports.file("rank_0.json", replaced(dump, from, to)), part);
  };
  CHECK(of_dump("\"scheduled\"", "\"dreaming\"", "8 calls of the Flight Recorder are in states") ==
        once);
  CHECK(of_dump("\"Float\"", "\"Posit\"", "the sizes of 8 calls of the Flight Recorder") == once);
  CHECK(of_dump("gloo:all_reduce", "gloo:gather", "are gathers, scatters, coalesced") == once);
  CHECK(of_dump("collective_seq_id", "collective_seq_ie", "have no number of their group") == once);
  const std::string log = content_of(test::recorded("inspector.0.log"));
  CHECK(said(imports, imports.file("log", replaced(log, "AllGather", "AllScatter")),
             "are no collective here") == once);
  CHECK(said(imports,
             changed(imports, "nsys.sqlite",
                     "CREATE TABLE OSRT_API (start INTEGER, end INTEGER);"
                     "INSERT INTO OSRT_API VALUES (1, 2), (3, 4);"
                     "UPDATE CUDA_GPU_MEMORY_USAGE_EVENTS SET memoryOperationType = 7"),
             "2 NVTX events that are no ranges, 2 events of OSRT_API, 3 events of memory that") ==
        once);
}

}  // namespace
}  // namespace tessera
