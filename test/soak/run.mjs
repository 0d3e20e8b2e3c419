// `npm run soak`: loads TypeScript through Vite, because Node 20 cannot.
import { fileURLToPath } from 'node:url'
import { createViteServer } from 'vitest/node'

const server = await createViteServer({
  root: fileURLToPath(new URL('../..', import.meta.url)),
  configFile: false,
  appType: 'custom',
  logLevel: 'error',
  optimizeDeps: { noDiscovery: true },
  server: { middlewareMode: true, watch: null, hmr: false, ws: false },
})
const { main } = await server.ssrLoadModule('/test/soak/main.ts')
const code = await main(process.argv.slice(2))
await server.close()
// After a signal, what clients wait for may still keep the process alive.
process.exit(code)
