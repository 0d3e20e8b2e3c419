import { Bans } from './bans.tsx'
import { Charts } from './charts.tsx'
import { Header } from './header.tsx'
import { Limits } from './limits.tsx'
import { Close, type PanelProps } from './panel.tsx'
import { Database, Keys, Process, Routes } from './panels.tsx'
import type { Connection } from './readiness.ts'
import { Tiles } from './tiles.tsx'

/** Something that happened, at the bottom of the page until it is closed. */
export interface Notice {
  readonly id: number
  readonly text: string
}

export interface PageProps extends PanelProps {
  readonly connection: Connection
  readonly notices: readonly Notice[]
  /** For a screen reader. */
  readonly announcement: string
}

export function Page({ view, connection, notices, announcement, actions }: PageProps) {
  const { kind } = connection
  return (
    <div class={kind === 'live' ? '' : `stale ${kind}`}>
      <Header {...{ connection, view, actions }} />
      <p class="unseen" id="announcements" role="status">
        {announcement !== '' && announcement}
      </p>
      <main id="main" tabIndex={-1}>
        <section aria-labelledby="now-title">
          <h2 class="unseen" id="now-title">
            Now
          </h2>
          <Tiles view={view} />
        </section>
        <Charts view={view} />
        <div class="panels">
          <Limits {...{ view, actions }} />
          <Bans {...{ view, actions }} />
          <Routes view={view} />
          <Process view={view} />
          <Database view={view} />
          <Keys view={view} />
        </div>
      </main>
      <div class="notices" id="notices" role="log" aria-label="Notices">
        {notices.map(({ id, text }) => (
          <div class="notice" key={id}>
            <p>{text}</p>
            <Close
              onClick={() => {
                actions.dropNotice(id)
                document.getElementById('main')?.focus({ preventScroll: true })
              }}
            />
          </div>
        ))}
      </div>
    </div>
  )
}
