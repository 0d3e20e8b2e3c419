import type { AddressInfo } from 'node:net'
import { type Config, type Environment, loadConfig, problemWith } from '../config.ts'
import { OperatorError } from '../errors.ts'
import { openService, type Service } from '../wiring/open-service.ts'
import { createLogger } from './logger.ts'

/** `npm start` hands a Ctrl-C on to a process that has it from the terminal already. */
const SIGNAL_ECHO_MS = 500

/**
 * Serves until a signal ends it. The exit code is 0 when all requests were answered, and 1 when the time ran
 * out, a second signal came or the process is broken. Throws `OperatorError` when it cannot start.
 */
export async function serve(environment: Environment): Promise<number> {
  const config = loadConfig(environment)
  const signals = watchSignals()
  const reloads = watchReloads()
  const { log, flush } = await createLogger(config)
  const service = await openService({ config, log })
  reloads.begin(service.reloadLimits)
  const crash = new Promise<'crash'>(resolve => {
    process.once('uncaughtException', err => {
      log.fatal({ err }, 'crashed')
      resolve('crash')
    })
  })
  try {
    const address = await listen(service, config)
    if (!/^(127\.|::1$|::ffff:127\.)/.test(address.address)) {
      log.warn({ host: address.address }, 'open to other machines, and asks for no credentials')
    }
    log.info({ url: urlOf(address), host: address.address, port: address.port }, 'listening')

    if ((await Promise.race([signals.first, crash])) === 'crash') return 1
    log.info('stopping')
    const stopped = service.server.stop(config.shutdownTimeoutMs)
    const end = await Promise.race([stopped, signals.second, crash])
    if (end === true) log.info('stopped')
    else log.warn({ reason: end === false ? 'timeout' : end }, 'stopped with requests unanswered')
    if (typeof end === 'string') return 1
    await service.close()
    return end ? 0 : 1
  } finally {
    await flush()
  }
}

/** One reading of the limits after the other, so that the newest file is the one in force at last. */
function watchReloads(): { begin(reload: () => Promise<void>): void } {
  let reading = Promise.resolve()
  let reload = async () => {}
  process.on('SIGHUP', () => {
    reading = reading.then(() => reload())
  })
  return {
    begin: reloadLimits => {
      reload = reloadLimits
    },
  }
}

interface Signals {
  readonly first: Promise<'signal'>
  /** The next one that is no echo of the first. */
  readonly second: Promise<'signal'>
}

function watchSignals(): Signals {
  let firstAt: number | undefined
  let resolveFirst: (value: 'signal') => void
  let resolveSecond: (value: 'signal') => void
  const first = new Promise<'signal'>(resolve => {
    resolveFirst = resolve
  })
  const second = new Promise<'signal'>(resolve => {
    resolveSecond = resolve
  })
  for (const name of ['SIGTERM', 'SIGINT'] as const) {
    process.on(name, () => {
      if (firstAt === undefined) {
        firstAt = performance.now()
        resolveFirst('signal')
      } else if (performance.now() - firstAt > SIGNAL_ECHO_MS) resolveSecond('signal')
    })
  }
  return { first, second }
}

async function listen({ server, close }: Service, { host, port }: Config): Promise<AddressInfo> {
  try {
    return await server.listen({ host, port })
  } catch (cause) {
    await close()
    throw new OperatorError([listenProblem(cause as NodeJS.ErrnoException, host, port)], { cause })
  }
}

function listenProblem({ code }: NodeJS.ErrnoException, host: string, port: number): string {
  if (code === 'EADDRINUSE') return problemWith('PORT', `${port}`, `it is in use on ${host}`)
  if (code === 'EACCES') return problemWith('PORT', `${port}`, 'this user may not listen on it')
  return problemWith('HOST', host, `it cannot be listened on (${code})`)
}

function urlOf({ address, family, port }: AddressInfo): string {
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`
}
