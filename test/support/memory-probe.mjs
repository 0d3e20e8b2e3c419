// Preloaded into a service: tells on a message what it holds once the garbage is gone.
process.on('message', () => {
  globalThis.gc()
  const { heapUsed, rss } = process.memoryUsage()
  const resources = {}
  for (const kind of process.getActiveResourcesInfo()) resources[kind] = (resources[kind] ?? 0) + 1
  process.send({ heapBytes: heapUsed, residentBytes: rss, resources })
})
// The channel by itself is no reason to go on.
process.channel.unref()
