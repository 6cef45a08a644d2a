// The folder of a run: who may save there, and whose checkpoints it may hold.
#include "runtime/files/RunFolder.h"

#include "tests/runtime/Expect.h"
#include "tests/runtime/train/TestSupport.h"

#include <csignal>
#include <filesystem>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace nano {
namespace {

using test::namesIn;
using test::readText;
using test::ScratchDirectory;
using test::writeText;

void silent(const std::string &line) { ADD_FAILURE() << line; }

std::string errorOf(const std::string &directory) {
  auto claimed = RunFolder::claim(directory, silent);
  if (claimed)
    return "";
  EXPECT_EQ(claimed.error().exitStatus(), 2);
  return claimed.error().message;
}

TEST(RunFolder, OneAtATime) {
  ScratchDirectory scratch;
  const std::string directory = scratch / "runs/a";
  const std::string self = "process " + std::to_string(::getpid()) + " on ";
  {
    auto first = RunFolder::claim(directory, silent);
    ASSERT_TRUE(first) << first.error().message;
    RunFolder moved = std::move(*first);
    EXPECT_EQ(readText(directory + "/.lock").rfind(self, 0), 0u);
    for (int attempt = 0; attempt < 2; ++attempt) {
      EXPECT_EQ(errorOf(directory).rfind(directory + ": " + self, 0), 0u);
      EXPECT_CONTAINS(errorOf(directory), " saves a run there; wait until it has ended, or save to "
                                          "another directory");
    }
    EXPECT_TRUE(RunFolder::claim(scratch / "runs/b", silent)) << "another folder is free";
    // Holders that have not said who they are.
    writeText(directory + "/.lock", "");
    EXPECT_CONTAINS(errorOf(directory), "another process saves a run there");
  }
  EXPECT_EQ(namesIn(directory), std::vector<std::string>());
  EXPECT_EQ(errorOf(directory), "");
}

TEST(RunFolder, AKilledProcessHoldsNothing) {
  ScratchDirectory scratch;
  int channel[2];
  ASSERT_EQ(::pipe(channel), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto claimed = RunFolder::claim(scratch.path, silent);
    char done = claimed ? 'y' : 'n';
    if (::write(channel[1], &done, 1) == 1)
      ::pause();
    ::_exit(0);
  }
  char done = 0;
  ASSERT_EQ(::read(channel[0], &done, 1), 1);
  EXPECT_EQ(done, 'y');
  EXPECT_CONTAINS(errorOf(scratch.path), "process " + std::to_string(child) + " on ");
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(channel[0]);
  ::close(channel[1]);
  EXPECT_EQ(namesIn(scratch.path), std::vector<std::string>{".lock"});
  EXPECT_EQ(errorOf(scratch.path), "");
  EXPECT_EQ(namesIn(scratch.path), std::vector<std::string>());
}

TEST(RunFolder, PlacesThatAreNone) {
  ScratchDirectory scratch;
  writeText(scratch / "file", "");
  EXPECT_CONTAINS(errorOf(scratch / "file"), "directory cannot be created");
  std::filesystem::create_symlink(scratch / "file", scratch / ".lock");
  EXPECT_CONTAINS(errorOf(scratch.path), scratch / ".lock: cannot be opened");
  EXPECT_EQ(readText(scratch / "file"), "");
}

Manifest at(const RunIdentity &run, int64_t step) {
  Manifest manifest;
  manifest.run = run;
  manifest.step = step;
  return manifest;
}

TEST(RunIdentity, WhatMakesARunAnother) {
  const RunOrigin origin{"plan", "shards", 1, ""};
  const RunIdentity run = identityOf(origin, nullptr);
  EXPECT_EQ(run.id.size(), 16u);
  EXPECT_EQ(identityOf(origin, nullptr).id, run.id);
  for (const RunOrigin &other : {RunOrigin{"plan2", "shards", 1, ""},
                                 {"plan", "shards2", 1, ""},
                                 {"plan", "shards", 2, ""},
                                 {"plan", "shards", 1, "init"}})
    EXPECT_NE(identityOf(other, nullptr).id, run.id);
  // It goes on as it began.
  const Manifest fifth = at(run, 5), sixth = at(run, 6);
  EXPECT_EQ(identityOf(origin, &fifth).id, run.id);
  // With another plan: what it was until then is part of the new one.
  const RunIdentity next = identityOf({"plan2", "shards", 1, ""}, &fifth);
  EXPECT_NE(next.id, run.id);
  EXPECT_TRUE(run.owns(sixth));
  EXPECT_TRUE(next.owns(fifth));
  EXPECT_FALSE(next.owns(sixth));
  EXPECT_FALSE(run.owns(at(next, 6)));
  EXPECT_NE(identityOf({"plan2", "shards", 1, ""}, &sixth).id, next.id);
  const Manifest eighth = at(next, 8);
  const RunIdentity last = identityOf({"plan3", "shards", 1, ""}, &eighth);
  EXPECT_TRUE(last.owns(fifth));
  EXPECT_TRUE(last.owns(eighth));
  EXPECT_FALSE(last.owns(at(next, 9)));
  // Of a checkpoint that says nothing of its run.
  const Manifest old = at({}, 3);
  const RunIdentity after = identityOf(origin, &old);
  EXPECT_TRUE(after.owns(old));
  EXPECT_FALSE(after.owns(at({}, 4)));
  EXPECT_FALSE(run.owns(old));
}

TEST(RunIdentity, IsKeptInManifests) {
  Manifest manifest = at({"0123456789abcdef", "fedcba9876543210", {{"", 3}, {"aa", 7}}}, 9);
  Contents contents;
  auto read = parseManifest(manifestText(manifest, contents), contents);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->run.id, manifest.run.id);
  EXPECT_EQ(read->run.settings, manifest.run.settings);
  EXPECT_EQ(read->run.from, manifest.run.from);
  EXPECT_EQ(read->checksum.size(), 16u);
}

} // namespace
} // namespace nano
