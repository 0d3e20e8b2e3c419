// Preloaded into each server (`node --import`): tells the benchmark what the whole process has used, when asked.
process.on('message', () => {
  const { user, system } = process.cpuUsage()
  process.send({ cpuMicros: user + system, peakBytes: process.resourceUsage().maxRSS * 1024 })
})

// It shall not keep a process alive that would otherwise end.
process.channel?.unref()
