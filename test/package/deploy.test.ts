import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import parsers from '@stoplight/spectral-parsers'
import { describe, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { type Environment, loadConfig } from '../../src/config/settings.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { NO_DOTENV } from '../support/problems-of.ts'
import { PROJECT, readProject } from '../support/project.ts'
import { canRunAsNobody, owner } from '../support/unprivileged-user.ts'

function readYaml(path: string) {
  const { data, diagnostics } = parsers.Yaml.parse(readProject(path))
  expect(diagnostics).toEqual([])
  return data
}

/** The pairs of `NAME=value NAME=value`. */
function pairsIn(text: string): Environment {
  return Object.fromEntries(Array.from(text.matchAll(/(\w+)=(\S+)/g), pair => pair.slice(1)))
}

/** The instructions of the Dockerfile, each on one line. */
const instructions = readProject('Dockerfile')
  .replaceAll(/^#.*\n/gm, '')
  .replaceAll(/\\\n\s*/g, '')
  .split('\n')
  .filter(line => line !== '')
  .map(line => ({ name: line.split(' ', 1)[0] ?? '', text: line.slice(line.indexOf(' ') + 1) }))

/** The last one, which is of the last stage. */
function instruction(name: string): string {
  return instructions.findLast(one => one.name === name)?.text ?? ''
}

const imageEnv = pairsIn(instruction('ENV'))

/** The settings of the image with more variables. */
function configWith(environment: Environment = {}) {
  return loadConfig({ ...imageEnv, ...environment }, NO_DOTENV)
}

describe('the Dockerfile', () => {
  test('copies what is in the project and let through by .dockerignore', () => {
    const allowed = readProject('.dockerignore').match(/(?<=^!).+/gm) ?? []
    const copied = instructions
      .filter(({ name, text }) => name === 'COPY' && !text.startsWith('--from'))
      .flatMap(({ text }) => text.split(' ').slice(0, -1))
    expect(copied.filter(path => !existsSync(join(PROJECT, path)))).toEqual([])
    expect([...new Set(copied)].toSorted()).toEqual(allowed.toSorted())
  })

  test('ends as a user who is not root, in exec form, on SIGTERM, with its data in a volume', () => {
    expect(instruction('USER')).toBe('node')
    expect(instruction('STOPSIGNAL')).toBe('SIGTERM')
    expect(JSON.parse(instruction('ENTRYPOINT'))).toEqual(['node', 'dist/main.js'])
    expect(JSON.parse(instruction('CMD'))).toEqual(['serve'])
    expect(instruction('VOLUME')).toBe('/data')
    expect(configWith()).toMatchObject({
      ...{ host: '0.0.0.0', port: 3000 },
      database: { kind: 'sqlite', path: '/data/users.db' },
    })
  })

  test.skipIf(!canRunAsNobody())(
    'makes an image that serves as another user from files it may not write, healthy while it does, and ends on SIGTERM',
    async () => {
      const root = temporaryFolder()
      const [app, data] = [join(root, 'app'), join(root, 'data')]
      for (const folder of [root, app, data]) {
        mkdirSync(folder, { recursive: true })
        chmodSync(folder, 0o755)
      }
      if (owner.uid !== undefined) chownSync(data, owner.uid, owner.gid ?? owner.uid)
      const shipped = instructions
        .slice(instructions.findLastIndex(({ name }) => name === 'FROM'))
        .flatMap(({ name, text }) => (name === 'COPY' ? `${text.split(' ').at(-1)}` : []))
      for (const path of shipped) {
        if (path === 'node_modules') symlinkSync(join(PROJECT, path), join(app, path))
        else cpSync(join(PROJECT, path), join(app, path), { recursive: true })
      }
      const environment = {
        ...{ ...imageEnv, PATH: process.env.PATH, HOST: '127.0.0.1', PORT: '0' },
        DATABASE_URL: join(data, 'users.db'),
      }
      const words = ['ENTRYPOINT', 'CMD'].flatMap(name => JSON.parse(instruction(name)))
      const [command, ...args] = words as string[]
      const service = spawn(`${command}`, args, { cwd: app, env: environment, ...owner })
      onTestFinished(() => void service.kill('SIGKILL'))
      const closed = once(service, 'close')
      const port = await new Promise<string>((resolve, reject) => {
        closed.then(code => reject(new Error(`it ended with ${code}`)))
        createInterface(service.stdout).on('line', line => {
          const match = /"url":"http:\/\/[\d.]+:(\d+)"/.exec(line)
          if (match?.[1] !== undefined) resolve(match[1])
        })
      })
      const check: string[] = JSON.parse(instruction('HEALTHCHECK').replace(/^.*?CMD /, ''))
      const [checkCommand, ...checkArgs] = check
      const env = { ...environment, PORT: port }
      const health = () => spawnSync(`${checkCommand}`, checkArgs, { cwd: app, env }).status
      expect(health()).toBe(0)
      service.kill('SIGTERM')
      expect(await closed).toEqual([0, null])
      expect(health()).toBe(1)
    },
  )
})

/** What each service of compose.yaml has, beside what its tests look at. Ports are open to this machine only. */
const CONFINED = z.object({
  image: z.string(),
  restart: z.literal('unless-stopped'),
  environment: z.record(z.string(), z.string()),
  ports: z.array(z.string().regex(/^127\.0\.0\.1:\$\{\w+:-\d+\}:\d+$/)).default([]),
  volumes: z.array(z.string()).default([]),
  stop_grace_period: z.string().regex(/^\d+s$/),
  entrypoint: z.array(z.string()).default([]),
  command: z.array(z.string()).default([]),
  deploy: z.object({ replicas: z.string() }).optional(),
  read_only: z.literal(true),
  tmpfs: z.array(z.string().regex(/^\/[\w/]+:size=.*,noexec,nosuid,nodev$/)).optional(),
  cap_drop: z.tuple([z.literal('ALL')]),
  security_opt: z.tuple([z.literal('no-new-privileges:true')]),
  pids_limit: z.int(),
  mem_limit: z.string(),
  logging: z.strictObject({
    driver: z.literal('json-file'),
    options: z.strictObject({
      'max-size': z.string().regex(/^\d+m$/),
      'max-file': z.string().regex(/^\d+$/),
    }),
  }),
})

const COMPOSE = z.object({
  services: z.strictObject({
    users: CONFINED.extend({
      build: z.literal('.'),
      init: z.literal(true),
      secrets: z.array(z.string()),
    }),
    postgres: CONFINED.extend({ user: z.literal('postgres') }),
    redis: CONFINED.extend({ user: z.literal('redis') }),
    prometheus: CONFINED.extend({ user: z.literal('nobody') }),
    grafana: CONFINED,
  }),
  secrets: z.record(z.string(), z.strictObject({ file: z.string() })),
  volumes: z.record(z.string(), z.null()),
})

/** What the caller of compose sets for each password and token. */
const SECRET = 's3cret-of-16-or-more-characters'

describe('compose.yaml', () => {
  const { services, secrets, volumes } = COMPOSE.parse(readYaml('compose.yaml'))
  const { users, postgres, redis, prometheus, grafana } = services

  /** The variables of a service, as compose fills them in from the environment of its caller. */
  function environmentOf({ environment }: typeof grafana, caller: Environment = {}) {
    return Object.fromEntries(
      Object.entries(environment).map(([name, text]) => [name, filledIn(text, caller)]),
    )
  }

  function filledIn(text: string, caller: Environment): string {
    return text.replaceAll(/\$\{(\w+)(:?)([-+])([^}]*)\}/g, (_, from, colon, sign, other) => {
      const value = caller[from] || (colon === '' ? caller[from] : undefined)
      return sign === '+' ? (value === undefined ? '' : other) : (value ?? other)
    })
  }

  /** The variables that its comments tell the caller to export, in the lines that set one of them. */
  function exportedVariables(named: string): Environment {
    const blocks = readProject('compose.yaml').match(/(?:^# +export .*\n)+/gm) ?? []
    const shown = blocks.find(block => block.includes(`${named} `)) ?? ''
    return pairsIn(shown.replaceAll('=…', `=${SECRET}`))
  }

  test('confines each service, keeps the databases without ports, and names volumes and files that are there', () => {
    expect([postgres.ports, redis.ports]).toEqual([[], []])
    for (const { volumes: mounted } of Object.values(services)) {
      for (const [from = ''] of mounted.map(volume => volume.split(':'))) {
        const isThere = from.startsWith('./') ? existsSync(join(PROJECT, from)) : from in volumes
        expect(isThere, from).toBe(true)
      }
    }
  })

  const byDefault = {
    database: { kind: 'sqlite', path: '/data/users.db' },
    ...{
      cacheStore: 'memory',
      trustProxy: false,
      managementPort: undefined,
      allowedHosts: undefined,
    },
  }
  const onPostgres = {
    database: {
      ...{ hosts: [{ host: 'postgres', port: 5432 }], database: 'user_records' },
      ...{ user: 'user_records', password: SECRET },
    },
    ...{ cacheStore: 'redis', redis: { nodes: [{ host: 'redis', port: 6379 }] } },
  }
  const monitored = { managementHost: '0.0.0.0', managementPort: 9464, managementToken: SECRET }

  test.each([
    { named: 'nothing', config: byDefault },
    { named: 'COMPOSE_PROFILES=postgres', config: onPostgres },
    { named: 'COMPOSE_PROFILES=monitoring', config: monitored },
    {
      named: 'USER_RECORDS_REPLICAS=2',
      config: { trustProxy: 1 },
      replicas: 2,
      ports: '3000-3001',
    },
  ])(
    'runs the service after the lines with $named',
    ({ named, config, replicas = 1, ports = 3000 }) => {
      const caller = exportedVariables(named)
      expect(caller).toMatchObject(named === 'nothing' ? {} : pairsIn(named))
      const found = configWith(environmentOf(users, caller))
      expect(found).toMatchObject(config)
      const stopMs = Number.parseInt(users.stop_grace_period, 10) * 1000
      expect(stopMs).toBeGreaterThan(found.shutdownTimeoutMs)
      const runs = [`${users.deploy?.replicas}`, ...users.ports].map(text => filledIn(text, caller))
      expect(runs).toEqual([`${replicas}`, `127.0.0.1:${ports}:3000`])
    },
  )

  test('takes what is secret from files, each of which its lines name', () => {
    const caller = {
      ...exportedVariables('USER_RECORDS_DATABASE='),
      USER_RECORDS_DATABASE: '',
      USER_RECORDS_REDIS: '',
    }
    const environment = environmentOf(users, caller)
    expect(environment).toMatchObject({ DATABASE_URL: '', REDIS_URL: '', MANAGEMENT_TOKEN: '' })
    expect(environment.MANAGEMENT_PORT).toBe('9464')
    for (const [name, { file }] of Object.entries(secrets)) {
      expect(users.secrets).toContain(name)
      expect(filledIn(file, caller)).toBe(`./secrets/${name}`)
      expect(filledIn(file, {})).toBe('/dev/null')
      const variable = `${name.toUpperCase()}_FILE`
      expect(environment[variable]).toBe(`/run/secrets/${name}`)
      expect(environmentOf(users)[variable]).toBe('')
    }
  })

  test('has no password of its own, and does not start Grafana without one', () => {
    expect(environmentOf(postgres).POSTGRES_PASSWORD).toBe('')
    const caller = exportedVariables('COMPOSE_PROFILES=postgres')
    expect(environmentOf(postgres, caller)).toMatchObject({ POSTGRES_PASSWORD: SECRET })
    const script = grafana.entrypoint[2]?.replaceAll('$$', '$').replace('/run.sh', 'true')
    const start = (env: Environment) =>
      spawnSync('/bin/sh', ['-c', `${script}`], {
        env: { PATH: process.env.PATH, ...environmentOf(grafana, env) },
        encoding: 'utf8',
      })
    expect(start({})).toMatchObject({ status: 1, stdout: 'GRAFANA_PASSWORD is not set\n' })
    const monitoring = exportedVariables('COMPOSE_PROFILES=monitoring')
    expect(start(monitoring)).toMatchObject({ status: 0, stdout: '' })
  })

  test('gives Prometheus the token in a file, and its arguments', () => {
    const folder = temporaryFolder()
    const [shell = '', option = '', script = '', ...names] = prometheus.entrypoint
    const adapted = script
      .replaceAll('$$', '$')
      .replace('/run/secrets', folder)
      .replace('/bin/prometheus', 'echo')
    const token = environmentOf(prometheus, { MANAGEMENT_TOKEN: 'a $b' })
    const printed = execFileSync(shell, [option, adapted, ...names, ...prometheus.command], {
      env: { PATH: process.env.PATH, ...token },
      encoding: 'utf8',
    })
    expect(printed).toBe(`${prometheus.command.join(' ')}\n`)
    expect(readFileSync(join(folder, 'management_token'), 'utf8')).toBe('a $b')
    const job = {
      authorization: { credentials_file: '/run/secrets/management_token' },
      dns_sd_configs: [{ names: ['users'], type: 'A', port: 9464 }],
    }
    const configuration = readYaml('deploy/prometheus/prometheus.yml')
    expect(configuration).toMatchObject({ scrape_configs: [job] })
  })
})

describe('the units of systemd', () => {
  const UNITS = [
    'user-records@.service',
    'user-records-backup.service',
    'user-records-backup.timer',
  ]
  const hasSystemd = spawnSync('systemd-analyze', ['--version']).status === 0
  if (!hasSystemd) console.log('the units of deploy/ are not verified: there is no systemd-analyze')

  /** Reads the values of a key in the text of a unit. */
  function valuesOf(unit: string) {
    return (key: string) =>
      Array.from(unit.matchAll(new RegExp(`^${key}=(.*)$`, 'gm')), ([, value]) => value ?? '')
  }

  function configOf(unit: string) {
    return loadConfig(pairsIn(valuesOf(unit)('Environment').join(' ')), NO_DOTENV)
  }

  test.skipIf(!hasSystemd)('are what systemd understands', () => {
    const folder = temporaryFolder()
    for (const name of UNITS) {
      // The paths of the machine that it is for are not there.
      const text = readProject(`deploy/${name}`).replaceAll('/usr/bin/node', process.execPath)
      writeFileSync(join(folder, name), text)
    }
    const paths = UNITS.map(name => join(folder, name))
    const { stdout, stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', ...paths], {
      encoding: 'utf8',
    })
    const ours = `${stdout}${stderr}`.split('\n').filter(line => line.includes('user-records'))
    expect(ours).toEqual([])
  })

  test('run instances on ports of their own, stop them later than they stop themselves, and confine them', () => {
    const unit = readProject('deploy/user-records@.service').replaceAll('%i', '3001')
    const values = valuesOf(unit)
    const { shutdownTimeoutMs, database, managementPort } = configOf(unit)
    expect(values('ExecStart')[0]).toMatch(/ serve --port 3001$/)
    expect(managementPort).toBeUndefined()
    const wanted = unit.replace(/^#(?=Environment=MANAGEMENT_PORT)/m, '')
    expect(configOf(wanted)).toMatchObject({ managementPort: 13_001, managementHost: '127.0.0.1' })
    const stopMs = Number.parseInt(values('TimeoutStopSec')[0] ?? '', 10) * 1000
    expect(stopMs).toBeGreaterThan(shutdownTimeoutMs)
    expect(database).toMatchObject({ path: `/var/lib/${values('StateDirectory')[0]}/users.db` })
    expect(values('ExecReload')).toEqual(['/bin/kill -HUP $MAINPID'])
    const confined = ['ProtectSystem', 'NoNewPrivileges', 'Restart'].flatMap(values)
    expect(confined).toEqual(['strict', 'yes', 'on-failure'])
    // Node compiles JavaScript.
    expect(values('MemoryDenyWriteExecute')).toEqual([])
  })

  test('run a command that makes a backup', () => {
    const [, command = ''] =
      /^ExecStart=\/bin\/sh -c '(.*)'$/m.exec(readProject('deploy/user-records-backup.service')) ??
      []
    const cwd = temporaryFolder()
    const script = command
      .replace('/usr/bin/node /opt/user-records-service', `${process.execPath} ${PROJECT}`)
      .replace('/var/lib/user-records-backups', cwd)
      .replaceAll('$$', '$')
      .replaceAll('%%', '%')
    const env = { PATH: process.env.PATH, LC_ALL: 'C', DATABASE_URL: join(cwd, 'users.db') }
    execFileSync(process.execPath, [join(PROJECT, 'dist/main.js'), 'migrate'], { env, cwd })
    const printed = execFileSync('/bin/sh', ['-c', script], { env, cwd, encoding: 'utf8' })
    expect(printed).toMatch(/\/\w+day\.db: [\d.]+ MB, checked\n$/)
  })
})
