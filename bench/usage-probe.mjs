// Preloaded into each server (`node --import`): sends the benchmark the CPU time and peak memory of the process on request.
process.on('message', () => {
  const { user, system } = process.cpuUsage()
  process.send({ cpuMicros: user + system, peakBytes: process.resourceUsage().maxRSS * 1024 })
})

// A server ends with the benchmark. The channel must not keep the process alive.
process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'))
process.channel?.unref()
